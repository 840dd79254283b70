// Losses of a member's outputs (outputs, rows), each row counting by its weight, and their
// gradients, which take the place of the outputs.
#ifndef NRS_LOSS_H
#define NRS_LOSS_H
#include "vectors.h"

namespace {

// How much each row counts, filled up with zeros: nothing for rows of folds that a member must not
// see. Returns the sum.
static float row_weights(const uint8_t *sees, const int64_t *fold, const float *weights,
                         int64_t rows, float *out) {
  for (int64_t b = 0; b < padded(rows); b++) {
    bool seen = b < rows && (!fold || sees[fold[b]]);
    out[b] = seen ? (weights ? weights[b] : 1.0f) : 0.0f;
  }
  Vec total = zero();
  for (int64_t b = 0; b < padded(rows); b += LANES) total = total + load(out + b);
  return sum(total);
}

static float softmax(int64_t outputs, int64_t rows, int64_t ld, const int64_t *classes,
                     const float *weights, float share, float *z) {
  Vec loss = zero();
  for (int64_t b = 0; b < padded(rows); b += LANES) {
    Vec w = load(weights + b), most = load(z + b), total = zero();
    float own[LANES];
    for (int i = 0; i < LANES; i++) own[i] = b + i < rows ? z[classes[b + i] * ld + b + i] : 0.0f;
    for (int64_t o = 1; o < outputs; o++) most = max(most, load(z + o * ld + b));
    for (int64_t o = 0; o < outputs; o++) {
      Vec e = exponential(load(z + o * ld + b) - most);
      store(z + o * ld + b, e);
      total = total + e;
    }
    loss = fma(w, logarithm(total) + (most - load(own)), loss);
    Vec scale = w * all(share), each = scale / total;
    for (int64_t o = 0; o < outputs; o++) store(z + o * ld + b, load(z + o * ld + b) * each);
    store(own, scale);
    for (int i = 0; i < LANES && b + i < rows; i++) z[classes[b + i] * ld + b + i] -= own[i];
  }
  return sum(loss);
}

static float logistic(int64_t outputs, int64_t rows, int64_t ld, const float *targets,
                      const float *weights, float share, float *z) {
  Vec loss = zero(), one = all(1.0f), each = all(1.0f / (float)outputs);
  for (int64_t o = 0; o < outputs; o++)
    for (int64_t b = 0; b < padded(rows); b += LANES) {
      Vec v = load(z + o * ld + b), y = load_some(targets + o * rows + b, rows - b);
      Vec w = load(weights + b) * each, e = exponential(zero() - absolute(v));
      loss = fma(w, relu(v) - v * y + logarithm(one + e), loss);
      // The sigmoid, from the side on which the exponential is small.
      Vec low = e / (one + e), high = one / (one + e);
      Vec yes = low + where(above(v, zero()), high - low);
      store(z + o * ld + b, (yes - y) * w * all(share));
    }
  return sum(loss);
}

static float squared(int64_t outputs, int64_t rows, int64_t ld, const float *targets,
                     const float *weights, float share, float *z) {
  Vec loss = zero(), each = all(1.0f / (float)outputs);
  for (int64_t o = 0; o < outputs; o++)
    for (int64_t b = 0; b < padded(rows); b += LANES) {
      Vec error = load(z + o * ld + b) - load_some(targets + o * rows + b, rows - b);
      Vec w = load(weights + b) * each;
      loss = fma(w, error * error, loss);
      store(z + o * ld + b, error * w * all(2.0f * share));
    }
  return sum(loss);
}

}  // namespace
#endif
