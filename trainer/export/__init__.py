"""From a run to an export folder: models converted, checked against Keras, with golden vectors and a manifest."""
