// Weights with the signs that monotone constraints ask for: see nrs.tabular.forest.monotone. A weight
// w of an input of direction b other than 0 counts as |w|³ · b · times, where `times` is of its unit.
#ifndef NRS_DIRECTIONS_H
#define NRS_DIRECTIONS_H
#include "engine.h"
#include "vectors.h"

namespace {

// Directions, and what they are multiplied by, are whole numbers: bound, and not.
NRS_INLINE Mask bound(Vec below) { return above(absolute(below), all(0.5f)); }
NRS_INLINE Mask unbound(Vec below) { return above(all(0.5f), absolute(below)); }

// The weights of one unit as they count.
static void direct(const float *weight, const float *below, float times, int64_t count, float *out) {
  for (int64_t i = 0; i < count; i += LANES) {
    int64_t n = count - i;
    Vec w = load_some(weight + i, n), b = load_some(below + i, n), size = absolute(w);
    Vec counted = size * size * size * (b * all(times));
    store_some(out + i, where(bound(b), counted) + where(unbound(b), w), n);
  }
}

// From the gradient by what counts to that by the weights, in place.
static void direct_backward(const float *weight, const float *below, float times, int64_t count,
                            float *gradient) {
  for (int64_t i = 0; i < count; i += LANES) {
    int64_t n = count - i;
    Vec w = load_some(weight + i, n), b = load_some(below + i, n), g = load_some(gradient + i, n);
    Vec slope = all(3.0f) * w * absolute(w) * (b * all(times));
    store_some(gradient + i, where(bound(b), g * slope) + where(unbound(b), g), n);
  }
}

NRS_INLINE float sign(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : 0.0f; }

}  // namespace
#endif
