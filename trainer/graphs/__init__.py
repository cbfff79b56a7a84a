"""Network files as graphs: operations, tensors, multiply-adds and cost."""
