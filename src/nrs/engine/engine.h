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

// What the subspaces of K members read, G each of F places. Tiles are at most 16 inputs that are
// mostly read together: features side by side (kind 0), or bins (1) or levels (2) of one feature. A
// reader is a subspace that reads much of a tile, by weights that lie side by side; readers are
// ordered by member, then by tile. Other inputs are read one by one, from columns: the features, then
// some bins, the last of which are levels, then one that is always 0. Places count from a member's
// first weight.
typedef struct {
  int64_t tiles, most, bins, levels;   // most readers of a member; bins that are columns
  const int32_t *kind, *start, *length;  // (tiles), start: the first feature, or that of the bins
  const float *low, *rate;             // (tiles, 16)
  const int64_t *first;                // (K * tiles + 1), the first reader
  const int32_t *subspace, *place;     // (readers)
  const int32_t *lanes;                // (readers), bits of the inputs of the tile
  const int64_t *lone_first;           // (K * G + 1)
  const int32_t *lone_place, *lone_column;
  const int64_t *used;                 // (K * G), at most F: the places before the blank ones
  const int64_t *column_source;        // (bins), below `features`
  const float *column_low, *column_rate;
} nrs_reading;

// Directions of monotone constraints: 1, -1, or 0 for what is free. Those of inputs are multiplied by
// how many their subspace reads; an output of direction 0 reads all units.
typedef struct {
  const float *inputs;                 // (K, G, F)
  const float *const *units;           // (layers) of (K, width)
  const float *outputs;                // (K, outputs)
} nrs_directions;

// A forest in training. K members of G subspaces of F inputs each, layers of so many `widths`
// (the first is G), and outputs.
typedef struct {
  int64_t members, size, features, outputs, layers;
  const int64_t *widths;               // (layers)
  nrs_reading reading;
  const float *gain;                   // (K, G, F)
  nrs_parameter weight;                // (K, G, F)
  const nrs_norm *norms;               // (layers) of (K, width)
  const nrs_parameter *hidden;         // (layers - 1) of (K, width, width before)
  nrs_parameter out_weight, out_bias;  // (K, outputs, last width), (K, outputs)
  const nrs_directions *directions;    // or null
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
  const float *x;                      // (rows, features)
  const float *columns;                // as nrs_columns wrote them
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

// A folded forest, whose inputs are features, then bins, then one that is always 0: relu(weight · inputs + shift), layer by layer.
typedef struct {
  int64_t members, size, features, bins, levels, outputs, layers, inputs;
  const int64_t *widths, *index, *source;
  const float *low, *rate, *weight;
  const float *const *shifts;          // (layers) of (K, width)
  const float *const *hidden;          // (layers - 1) of (K, width, width before)
  const float *out_weight, *out_bias;
} nrs_folded;

// Many small linear maps: G groups of O outputs each, on F of the features each.
typedef struct {
  int64_t rows, features, groups, outputs, size;
  const int64_t *index;                // (G, F), below `features`
  const float *weight;                 // (G, O, F)
  const float *columns;                // (features, nrs_layer_stride), as nrs_layer_columns wrote it
} nrs_layer;

// A batch normalisation of their outputs, and the statistics of one batch.
typedef struct {
  const float *scale, *shift;          // (G * O)
  float *mean, *variance;              // (G * O)
  double epsilon;
} nrs_batch_norm;

// Gradients. That of the output is given, its rows or its outputs side by side: one step is 1.
typedef struct {
  const float *of_output;
  int64_t row_step, output_step;
  float *of_weight;                    // (G, O, F)
  float *of_scale, *of_shift;          // (G * O), or null without a normalisation
  float *of_columns;                   // like the columns, added to; or null
} nrs_gradients;

// Which part of a step: the outputs, the loss and its gradient, and the update.
enum { NRS_FORWARD = 1, NRS_LOSS = 2, NRS_BACKWARD = 4 };

// Version of this interface; the instruction set, and whether this processor has it.
int64_t nrs_version(void);
const char *nrs_instructions(void);
int nrs_runs_here(void);

// Floats that `nrs_columns` writes for so many rows, that a member needs in training with batches of
// that size, and that predictions need.
int64_t nrs_columns_size(const nrs_forest *forest, int64_t rows);
int64_t nrs_training_size(const nrs_forest *forest, int64_t rows);
int64_t nrs_prediction_size(const nrs_folded *forest);
int64_t nrs_slopes_size(const nrs_folded *forest, int64_t directions);

// Rows (rows, features) as columns, with some bins.
void nrs_columns(const nrs_forest *forest, const float *rows, int64_t n_rows, float *columns);

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

// Gradients by the inputs, (directions, inputs, n_rows), of numbers whose gradients by the outputs of
// the members are given, (directions, K, outputs, n_rows).
void nrs_slopes(const nrs_folded *forest, const float *rows, int64_t n_rows, int64_t directions,
                const float *gradients, float *slopes, float *memory);

// Whether so many numbers are all from 0 to before `end`.
int nrs_layer_reads_within(const int64_t *index, int64_t count, int64_t end);

// Floats from one column of a layer to the next; what a map of so many rows and the way back need.
int64_t nrs_layer_stride(int64_t rows);
int64_t nrs_layer_map_size(const nrs_layer *layer);
int64_t nrs_layer_backward_size(const nrs_layer *layer);

// Columns of x (rows, features), and back.
void nrs_layer_columns(const float *x, int64_t row_step, int64_t rows, int64_t features,
                       float *columns);
void nrs_layer_rows(const float *columns, int64_t rows, int64_t features, float *x);

// out (G * O, rows) = weight · x + bias (or null), maybe with ReLU, of the rows from `first` to before
// `last`. The layer has no columns: they are made of x for some rows at a time.
void nrs_layer_map(const nrs_layer *layer, const float *x, int64_t row_step, const float *bias,
                   int positive, int64_t first, int64_t last, float *out, float *memory);

// The groups from `first` to before `last` in training: statistics, and out (G * O, rows) after
// normalisation and ReLU. The map is h (G * O, nrs_layer_stride); of one output per group it is
// not kept, and h holds one channel.
void nrs_layer_train(const nrs_layer *layer, const nrs_batch_norm *norm, int64_t first,
                     int64_t last, float *h, float *out);

// The way back of these groups; without a norm that of the map alone. h as nrs_layer_train left it.
void nrs_layer_backward(const nrs_layer *layer, const nrs_batch_norm *norm, const float *h,
                        const nrs_gradients *gradients, int64_t first, int64_t last,
                        float *memory);

#ifdef __cplusplus
}
#endif
#endif
