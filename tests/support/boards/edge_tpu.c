/* A delegate of TFLite under libedgetpu's name that takes over edgetpu-custom-op, for tests without an Edge TPU.

   Its operation gives back its int8 input with every byte complemented: what comes out can have come from nowhere
   else. EDGE_TPU=absent has it find no device, as libedgetpu does when no stick is plugged in. The structures are those
   of TensorFlow Lite's C interface (tensorflow/lite/core/c/common.h), as far as they are used here. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int size; int data[]; } IntArray;
typedef struct { int type; void *data; IntArray *dims; float scale; int32_t zero; int allocation; size_t bytes; } TensorHead;
typedef struct { IntArray *inputs, *outputs; } NodeHead;
typedef struct Context Context;
typedef struct Delegate Delegate;

/* Passed by value. Later versions have more members behind these, and read them: they are zero. */
typedef struct {
    void *(*init)(Context *, const char *, size_t);
    void (*free)(Context *, void *);
    int (*prepare)(Context *, NodeHead *);
    int (*invoke)(Context *, NodeHead *);
    const char *(*profiling)(const Context *, const NodeHead *);
    int32_t builtin_code;
    const char *custom_name;
    int version;
    void *later[12];
} Registration;

struct Context {
    size_t tensors_size;
    int (*GetExecutionPlan)(Context *, IntArray **);
    char *tensors;
    void *impl, *ResizeTensor, *ReportError, *AddTensors;
    int (*GetNodeAndRegistration)(Context *, int, NodeHead **, Registration **);
    int (*ReplaceNodeSubsetsWithDelegateKernels)(Context *, Registration, const IntArray *, Delegate *);
};

struct Delegate {
    void *data;
    int (*Prepare)(Context *, Delegate *);
    void *copy_from, *copy_to, *free_handle;
    int64_t flags;
    void *later[4];
};

/* The length of one tensor's record is not in the interface: it is given by whoever compiles this. */
static TensorHead *tensor(Context *context, int number) {
    return (TensorHead *)(context->tensors + (size_t)number * TENSOR_BYTES);
}

static int prepare(Context *context, NodeHead *node) { return 0; }

static int invoke(Context *context, NodeHead *node) {
    TensorHead *out = tensor(context, node->outputs->data[0]);
    for (int i = 0; i < node->inputs->size; i++) {
        TensorHead *in = tensor(context, node->inputs->data[i]);
        if (in->bytes != out->bytes) continue;
        for (size_t at = 0; at < out->bytes; at++) ((uint8_t *)out->data)[at] = ~((uint8_t *)in->data)[at];
        return 0;
    }
    return 1;
}

static int take_over(Context *context, Delegate *delegate) {
    IntArray *plan;
    if (context->GetExecutionPlan(context, &plan)) return 1;
    IntArray *mine = malloc(sizeof(IntArray) + sizeof(int) * (size_t)plan->size);
    mine->size = 0;
    for (int i = 0; i < plan->size; i++) {
        NodeHead *node;
        Registration *registration;
        if (context->GetNodeAndRegistration(context, plan->data[i], &node, &registration)) return 1;
        if (registration->custom_name && !strcmp(registration->custom_name, "edgetpu-custom-op"))
            mine->data[mine->size++] = plan->data[i];
    }
    Registration ours = {.prepare = prepare, .invoke = invoke, .custom_name = "StandIn", .version = 1};
    int failed = mine->size ? context->ReplaceNodeSubsetsWithDelegateKernels(context, ours, mine, delegate) : 0;
    free(mine);
    return failed;
}

Delegate *tflite_plugin_create_delegate(char **keys, char **values, size_t count, void (*report)(const char *)) {
    const char *said = getenv("EDGE_TPU");
    if (said && !strcmp(said, "absent")) return NULL;
    Delegate *made = calloc(1, sizeof(Delegate));
    made->Prepare = take_over;
    made->flags = 1; /* dynamic tensors are allowed: else TFLite prepares the operations before it asks us */
    return made;
}

void tflite_plugin_destroy_delegate(Delegate *delegate) { free(delegate); }
