// The library: the functions of engine.h. It is compiled once for each instruction set.
#include "engine.h"

#include <cpuid.h>

#include "forest.h"
#include "predict.h"
#include "slopes.h"

#define NRS_EXPORT extern "C" __attribute__((visibility("default")))

NRS_EXPORT int64_t nrs_version(void) { return 3; }

NRS_EXPORT const char *nrs_instructions(void) {
#if defined(__AVX512F__)
  return "avx512";
#else
  return "avx2";
#endif
}

// In whole numbers only: a processor without these instructions runs this function too.
NRS_EXPORT int nrs_runs_here(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  // FMA, and an operating system that keeps the wide registers.
  if (!(c & (1u << 12)) || !(c & (1u << 27))) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
#if defined(__AVX512F__)
  // F, DQ, BW and VL.
  constexpr unsigned needed = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, kept = 0xe6;
#else
  constexpr unsigned needed = 1u << 5, kept = 0x6;
#endif
  return (b & needed) == needed && (low & kept) == kept;
}

NRS_EXPORT int64_t nrs_columns_size(const nrs_forest *f, int64_t rows) {
  return (f->features + f->reading.bins + 1) * stride(rows);
}

NRS_EXPORT int64_t nrs_training_size(const nrs_forest *forest, int64_t rows) {
  return Memory(*forest, rows, nullptr).size;
}

NRS_EXPORT int64_t nrs_prediction_size(const nrs_folded *forest) {
  return (forest->inputs + 2 * widest_layer(*forest)) * stride(BLOCK);
}

NRS_EXPORT int64_t nrs_slopes_size(const nrs_folded *forest, int64_t directions) {
  return slopes_size(*forest, directions);
}

NRS_EXPORT void nrs_columns(const nrs_forest *f, const float *rows, int64_t n_rows, float *columns) {
  const nrs_reading &r = f->reading;
  make_inputs(f->features, r.bins, r.levels, r.column_source, r.column_low, r.column_rate, rows,
              f->features, n_rows, columns, stride(n_rows));
}

NRS_EXPORT void nrs_train(const nrs_forest *forest, const nrs_settings *settings,
                          const nrs_step *steps, int64_t n_steps, int64_t first, int64_t last,
                          int phases, float *memory, int64_t memory_step) {
  for (int64_t k = first; k < last; k++) {
    float *own = memory + (k - first) * memory_step;
    Member member{*forest, *settings, k, Memory(*forest, settings->capacity, own)};
    for (int64_t i = 0; i < n_steps; i++) member.take_step(steps[i], phases);
  }
}

NRS_EXPORT void nrs_predict(const nrs_folded *f, const float *rows, int64_t n_rows, int64_t first,
                            int64_t last, const int64_t *chosen, int64_t n_chosen, float *outputs,
                            float *memory) {
  int64_t layer = widest_layer(*f) * stride(BLOCK);
  float *one = memory, *other = one + layer, *inputs = other + layer;
  for (int64_t at = first; at < last; at += BLOCK) {
    int64_t n = last - at < BLOCK ? last - at : BLOCK;
    make_inputs(f->features, f->bins, f->levels, f->source, f->low, f->rate,
                rows + at * f->features, f->features, n, inputs, stride(n));
    for (int64_t i = 0; i < n_chosen; i++)
      predict_block(*f, chosen[i], inputs, n, one, other, outputs + i * f->outputs * n_rows + at,
                    n_rows);
  }
}

NRS_EXPORT void nrs_slopes(const nrs_folded *f, const float *rows, int64_t n_rows,
                           int64_t directions, const float *gradients, float *slopes,
                           float *memory) {
  float *inputs = memory, *found = inputs + f->inputs * stride(BLOCK);
  float *layers = found + directions * f->inputs * stride(BLOCK);
  for (int64_t at = 0; at < n_rows; at += BLOCK) {
    int64_t n = n_rows - at < BLOCK ? n_rows - at : BLOCK, ld = stride(n);
    make_inputs(f->features, f->bins, f->levels, f->source, f->low, f->rate,
                rows + at * f->features, f->features, n, inputs, ld);
    memset(found, 0, directions * f->inputs * ld * sizeof(float));
    for (int64_t k = 0; k < f->members; k++)
      slopes_block(*f, k, directions, inputs, n, gradients + at, n_rows, layers, found);
    for (int64_t i = 0; i < directions * f->inputs; i++)
      memcpy(slopes + i * n_rows + at, found + i * ld, n * sizeof(float));
  }
}
