// One update by AdamW, and the moving average of what it updates.
#ifndef NRS_STEP_H
#define NRS_STEP_H
#include "engine.h"
#include "vectors.h"

namespace {

struct Rates {
  float keep, beta1, beta2, tiny, size, root, averaging;
  Rates(const nrs_settings &s, const nrs_step &t)
      : keep((float)(1 - t.rate * s.decay)), beta1((float)(1 - s.beta1)), beta2((float)s.beta2),
        tiny((float)s.tiny), size((float)(t.rate / t.correction1)),
        root((float)(1 / t.correction2)), averaging((float)t.averaging) {}
};

NRS_INLINE Vec towards(Vec from, Vec to, float share) { return fma(to - from, all(share), from); }

static void update_row(const Rates &r, const nrs_parameter &p, int64_t at, const float *gradient,
                       int64_t count) {
  for (int64_t i = 0; i < count; i += LANES) {
    int64_t n = count - i, j = at + i;
    Vec g = load_some(gradient + i, n), v = load_some(p.value + j, n);
    Vec m = towards(load_some(p.moment + j, n), g, r.beta1);
    Vec s = fma(load_some(p.square + j, n), all(r.beta2), g * g * all(1 - r.beta2));
    v = v * all(r.keep) - all(r.size) * m / (fma(root(s), all(r.root), all(r.tiny)));
    store_some(p.moment + j, m, n);
    store_some(p.square + j, s, n);
    store_some(p.value + j, v, n);
    if (p.average) {
      store_some(p.average + j, towards(load_some(p.average + j, n), v, r.averaging), n);
    }
  }
}

// Update (rows, columns) numbers of a parameter from `at` on; the rows of the gradient are ld apart.
static void update(const Rates &r, const nrs_parameter &p, int64_t at, const float *gradient,
                   int64_t rows, int64_t columns, int64_t ld) {
  if (ld == columns) return update_row(r, p, at, gradient, rows * columns);
  for (int64_t i = 0; i < rows; i++)
    update_row(r, p, at + i * columns, gradient + i * ld, columns);
}

// Move numbers towards others, as running statistics and averages do.
static void follow(float *own, const float *other, int64_t count, float share) {
  for (int64_t i = 0; i < count; i += LANES) {
    int64_t n = count - i;
    store_some(own + i, towards(load_some(own + i, n), load_some(other + i, n), share), n);
  }
}

}  // namespace
#endif
