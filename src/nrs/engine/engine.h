// The C interface: what the Python module calls. No function here allocates memory or starts a
// thread. Whoever calls has checked all sizes (see forest.py) and brings all memory.
#ifndef NRS_ENGINE_H
#define NRS_ENGINE_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// One parameter of all members, end to end: its value, its moments in Adam, and its moving average
// (null where there is none). Each is updated in place.
typedef struct {
  float *value, *moment, *square, *average;
} nrs_parameter;

// A batch normalisation of all members: parameters, running statistics and averages of these.
typedef struct {
  nrs_parameter scale, shift;
  float *mean, *variance, *average_mean, *average_variance;
} nrs_norm;

// A forest in training. K members of G subspaces of F inputs each, layers of so many `widths`
// (the first is G), and outputs. Inputs are features, then bins, then one that is always 0.
typedef struct {
  int64_t members, size, features, bins, levels, outputs, layers, inputs;
  const int64_t *widths;               // (layers)
  const int64_t *index;                // (K, G, F), below `inputs`
  const float *gain;                   // (K, G, F)
  const int64_t *source;               // (bins), below `features`
  const float *low, *rate;             // (bins)
  nrs_parameter weight;                // (K, G, F)
  const nrs_norm *norms;               // (layers) of (K, width)
  const nrs_parameter *hidden;         // (layers - 1) of (K, width, width before)
  nrs_parameter out_weight, out_bias;  // (K, outputs, last width), (K, outputs)
} nrs_forest;

// What does not change from step to step. Loss: 0 softmax, 1 logistic, 2 squared.
typedef struct {
  int64_t loss, capacity;              // rows of the largest batch
  double epsilon, momentum;            // of the normalisations
  double beta1, beta2, tiny, decay;    // of AdamW
  double drop;                         // share of units that are dropped
  int64_t folds;
  const uint8_t *sees;                 // (K, folds)
  double share;                        // of a member in the loss of all
} nrs_settings;

// A batch and the rates of its step.
typedef struct {
  int64_t rows;
  const float *inputs;                 // as nrs_inputs wrote them
  const int64_t *classes;              // (rows), below `outputs`, of a softmax
  const float *targets;                // (outputs, rows), of the other losses
  const float *weights;                // (rows) or null
  const int64_t *fold;                 // (rows) or null
  const uint8_t *const *pools;         // (layers), bits: 1 where a unit is kept; or null
  const int64_t *places;               // (layers), the bit of member 0's first unit; or null
  double rate, correction1, correction2, averaging;
  float *outputs, *gradients;          // (K, outputs, rows), where the caller computes the loss
  double *losses;                      // (K)
} nrs_step;

// A folded forest: relu(weight · inputs + shift), layer by layer.
typedef struct {
  int64_t members, size, features, bins, levels, outputs, layers, inputs;
  const int64_t *widths, *index, *source;
  const float *low, *rate, *weight;
  const float *const *shifts;          // (layers) of (K, width)
  const float *const *hidden;          // (layers - 1) of (K, width, width before)
  const float *out_weight, *out_bias;
} nrs_folded;

// Which part of a step: the outputs, the loss and its gradient, and the update.
enum { NRS_FORWARD = 1, NRS_LOSS = 2, NRS_BACKWARD = 4 };

// Version of this interface; the instruction set, and whether this processor has it.
int64_t nrs_version(void);
const char *nrs_instructions(void);
int nrs_runs_here(void);

// Floats that `nrs_inputs` writes for so many rows, that a member needs in training with batches of
// that size, and that predictions need.
int64_t nrs_inputs_size(int64_t inputs, int64_t rows);
int64_t nrs_training_size(const nrs_forest *forest, int64_t rows);
int64_t nrs_prediction_size(const nrs_folded *forest);

// Rows (rows, features) as columns, with their bins: what the other functions read.
void nrs_inputs(const nrs_forest *forest, const float *rows, int64_t n_rows, float *inputs);

// Train members from `first` to before `last`, each through all the steps. Of several `phases` in
// several calls, `memory` holds what a member needs from one to the next: memory_step floats apart,
// which is 0 where all are done in one call.
void nrs_train(const nrs_forest *forest, const nrs_settings *settings, const nrs_step *steps,
               int64_t n_steps, int64_t first, int64_t last, int phases, float *memory,
               int64_t memory_step);

// Outputs of the n_chosen members of these numbers for the rows from `first` to before `last`, of
// (n_chosen, outputs, n_rows).
void nrs_predict(const nrs_folded *forest, const float *rows, int64_t n_rows, int64_t first,
                 int64_t last, const int64_t *chosen, int64_t n_chosen, float *outputs,
                 float *memory);

#ifdef __cplusplus
}
#endif
#endif
