// Sixteen numbers at once. On AVX-512 they are one register, on AVX2 a pair; sums go through the
// lanes in the same order on both, and nothing is fused or reordered but where it is written, so
// that both give the same bits.
#ifndef NRS_VECTORS_H
#define NRS_VECTORS_H
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define NRS_INLINE static inline __attribute__((always_inline))

namespace {

constexpr int LANES = 16;

#if defined(__AVX512F__)

struct Vec { __m512 v; };
struct Mask { __mmask16 m; };

NRS_INLINE Vec load(const float *p) { return {_mm512_loadu_ps(p)}; }
NRS_INLINE void store(float *p, Vec a) { _mm512_storeu_ps(p, a.v); }
NRS_INLINE Vec all(float x) { return {_mm512_set1_ps(x)}; }
NRS_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
NRS_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
NRS_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
NRS_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
NRS_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
// The second of the two where one is NaN.
NRS_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
NRS_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
NRS_INLINE Vec root(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
NRS_INLINE Vec absolute(Vec a) { return {_mm512_abs_ps(a.v)}; }
NRS_INLINE Vec whole(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2 to the power of a whole number.
NRS_INLINE Vec power_of_two(Vec a) {
  __m512i n = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(n, 23))};
}
// The exponent and the fraction, from 1 to below 2, of a positive number.
NRS_INLINE Vec exponent(Vec a) {
  __m512i n = _mm512_srli_epi32(_mm512_castps_si512(a.v), 23);
  return {_mm512_cvtepi32_ps(_mm512_sub_epi32(n, _mm512_set1_epi32(127)))};
}
NRS_INLINE Vec fraction(Vec a) {
  __m512i n = _mm512_and_epi32(_mm512_castps_si512(a.v), _mm512_set1_epi32(0x007fffff));
  return {_mm512_castsi512_ps(_mm512_or_epi32(n, _mm512_set1_epi32(0x3f800000)))};
}
NRS_INLINE Mask above(Vec a, Vec b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ)}; }
NRS_INLINE Mask from_bits(uint32_t bits) { return {(__mmask16)bits}; }
// The numbers of a mask, and 0 elsewhere.
NRS_INLINE Vec where(Mask k, Vec a) { return {_mm512_maskz_mov_ps(k.m, a.v)}; }
// Nothing but the lanes of the mask is read or written.
NRS_INLINE Vec load_of(Mask k, const float *p) { return {_mm512_maskz_loadu_ps(k.m, p)}; }
NRS_INLINE void store_of(Mask k, float *p, Vec a) { _mm512_mask_storeu_ps(p, k.m, a.v); }
NRS_INLINE __m256 halves(Vec a) {
  return _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
}

#elif defined(__AVX2__) && defined(__FMA__)

struct Vec { __m256 a, b; };
struct Mask { __m256 a, b; };

#define NRS_EACH(x, y) {x, y}
NRS_INLINE Vec load(const float *p) { return NRS_EACH(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
NRS_INLINE void store(float *p, Vec x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
NRS_INLINE Vec all(float x) { return NRS_EACH(_mm256_set1_ps(x), _mm256_set1_ps(x)); }
NRS_INLINE Vec operator+(Vec x, Vec y) {
  return NRS_EACH(_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b));
}
NRS_INLINE Vec operator-(Vec x, Vec y) {
  return NRS_EACH(_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b));
}
NRS_INLINE Vec operator*(Vec x, Vec y) {
  return NRS_EACH(_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b));
}
NRS_INLINE Vec operator/(Vec x, Vec y) {
  return NRS_EACH(_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b));
}
NRS_INLINE Vec fma(Vec x, Vec y, Vec z) {
  return NRS_EACH(_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b));
}
NRS_INLINE Vec max(Vec x, Vec y) {
  return NRS_EACH(_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b));
}
NRS_INLINE Vec min(Vec x, Vec y) {
  return NRS_EACH(_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b));
}
NRS_INLINE Vec root(Vec x) { return NRS_EACH(_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)); }
NRS_INLINE Vec absolute(Vec x) {
  __m256 sign = _mm256_set1_ps(-0.0f);
  return NRS_EACH(_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b));
}
NRS_INLINE Vec whole(Vec x) {
  constexpr int nearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return NRS_EACH(_mm256_round_ps(x.a, nearest), _mm256_round_ps(x.b, nearest));
}
NRS_INLINE __m256 power8(__m256 x) {
  __m256i n = _mm256_add_epi32(_mm256_cvtps_epi32(x), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(n, 23));
}
NRS_INLINE Vec power_of_two(Vec x) { return NRS_EACH(power8(x.a), power8(x.b)); }
NRS_INLINE __m256 exponent8(__m256 x) {
  __m256i n = _mm256_srli_epi32(_mm256_castps_si256(x), 23);
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(n, _mm256_set1_epi32(127)));
}
NRS_INLINE Vec exponent(Vec x) { return NRS_EACH(exponent8(x.a), exponent8(x.b)); }
NRS_INLINE __m256 fraction8(__m256 x) {
  __m256i n = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x007fffff));
  return _mm256_castsi256_ps(_mm256_or_si256(n, _mm256_set1_epi32(0x3f800000)));
}
NRS_INLINE Vec fraction(Vec x) { return NRS_EACH(fraction8(x.a), fraction8(x.b)); }
NRS_INLINE Mask above(Vec x, Vec y) {
  return NRS_EACH(_mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ));
}
NRS_INLINE __m256 bits8(uint32_t bits) {
  __m256i of_lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  __m256i own = _mm256_and_si256(_mm256_set1_epi32((int)bits), of_lane);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(own, of_lane));
}
NRS_INLINE Mask from_bits(uint32_t bits) { return NRS_EACH(bits8(bits), bits8(bits >> 8)); }
NRS_INLINE Vec where(Mask k, Vec x) {
  return NRS_EACH(_mm256_and_ps(k.a, x.a), _mm256_and_ps(k.b, x.b));
}
NRS_INLINE Vec load_of(Mask k, const float *p) {
  return NRS_EACH(_mm256_maskload_ps(p, _mm256_castps_si256(k.a)),
                  _mm256_maskload_ps(p + 8, _mm256_castps_si256(k.b)));
}
NRS_INLINE void store_of(Mask k, float *p, Vec x) {
  _mm256_maskstore_ps(p, _mm256_castps_si256(k.a), x.a);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(k.b), x.b);
}
NRS_INLINE __m256 halves(Vec x) { return _mm256_add_ps(x.a, x.b); }
#undef NRS_EACH

#else
#error "the engine needs AVX-512 (F, BW, DQ, VL), or AVX2 and FMA"
#endif

NRS_INLINE Vec zero() { return all(0.0f); }
// Not max(a, 0): a NaN must stay one.
NRS_INLINE Vec relu(Vec a) { return max(zero(), a); }

// Lanes below n.
NRS_INLINE Mask first(int64_t n) { return from_bits(n >= LANES ? 0xffffu : (1u << n) - 1u); }

// The sum of all lanes, always in the same order.
NRS_INLINE float sum(Vec a) {
  __m256 s = halves(a);
  __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
  t = _mm_add_ps(t, _mm_movehl_ps(t, t));
  return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
}

// The sums of four vectors.
NRS_INLINE void sums(Vec a, Vec b, Vec c, Vec d, float *out) {
  __m256 s = _mm256_hadd_ps(_mm256_hadd_ps(halves(a), halves(b)),
                            _mm256_hadd_ps(halves(c), halves(d)));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

// Up to sixteen numbers, and zeros; nothing beyond them is read or written.
NRS_INLINE Vec load_some(const float *p, int64_t n) {
  return n >= LANES ? load(p) : load_of(first(n), p);
}
NRS_INLINE void store_some(float *p, Vec a, int64_t n) {
  if (n >= LANES) return store(p, a);
  store_of(first(n), p, a);
}

// Numbers that lie side by side, put into the lanes of these bits; and back.
NRS_INLINE Vec load_into(uint32_t lanes, const float *p) {
  int count = __builtin_popcount(lanes);
#if defined(__AVX512F__)
  return {_mm512_maskz_expand_ps((__mmask16)lanes, load_some(p, count).v)};
#else
  if (lanes == (1u << count) - 1u) return load_some(p, count);
  float spread[LANES] = {0};
  for (; lanes; lanes &= lanes - 1) spread[__builtin_ctz(lanes)] = *p++;
  return load(spread);
#endif
}
NRS_INLINE void store_from(uint32_t lanes, float *p, Vec a) {
  int count = __builtin_popcount(lanes);
#if defined(__AVX512F__)
  store_some(p, {_mm512_maskz_compress_ps((__mmask16)lanes, a.v)}, count);
#else
  if (lanes == (1u << count) - 1u) return store_some(p, a, count);
  float spread[LANES];
  store(spread, a);
  for (; lanes; lanes &= lanes - 1) *p++ = spread[__builtin_ctz(lanes)];
#endif
}

// in (4, 4) as its transpose.
NRS_INLINE void transpose4(const float *in, int64_t ld, float *out, int64_t out_ld) {
  __m128 a = _mm_loadu_ps(in), b = _mm_loadu_ps(in + ld), c = _mm_loadu_ps(in + 2 * ld),
         d = _mm_loadu_ps(in + 3 * ld);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(out, a);
  _mm_storeu_ps(out + out_ld, b);
  _mm_storeu_ps(out + 2 * out_ld, c);
  _mm_storeu_ps(out + 3 * out_ld, d);
}

// exp and log by the polynomials of Cephes, to about two units in the last place.
NRS_INLINE Vec exponential(Vec x) {
  x = max(all(-87.0f), min(all(88.0f), x));
  Vec n = whole(x * all(1.44269504088896341f));
  Vec r = fma(n, all(-0.693359375f), x);
  r = fma(n, all(2.12194440e-4f), r);
  Vec p = all(1.9875691500e-4f);
  p = fma(p, r, all(1.3981999507e-3f));
  p = fma(p, r, all(8.3334519073e-3f));
  p = fma(p, r, all(4.1665795894e-2f));
  p = fma(p, r, all(1.6666665459e-1f));
  p = fma(p, r, all(5.0000001201e-1f));
  p = fma(p * r, r, r + all(1.0f));
  return p * power_of_two(n);
}

// Of numbers of at least 1.
NRS_INLINE Vec logarithm(Vec x) {
  Vec e = exponent(x), f = fraction(x) * all(0.5f);
  // f from 1/2 to 1; below the root of 1/2 it is doubled.
  Mask small = above(all(0.707106781186547524f), f);
  e = e + all(1.0f) - where(small, all(1.0f));
  f = f + where(small, f) - all(1.0f);
  Vec z = f * f, p = all(7.0376836292e-2f);
  p = fma(p, f, all(-1.1514610310e-1f));
  p = fma(p, f, all(1.1676998740e-1f));
  p = fma(p, f, all(-1.2420140846e-1f));
  p = fma(p, f, all(1.4249322787e-1f));
  p = fma(p, f, all(-1.6668057665e-1f));
  p = fma(p, f, all(2.0000714765e-1f));
  p = fma(p, f, all(-2.4999993993e-1f));
  p = fma(p, f, all(3.3333331174e-1f));
  p = p * f * z;
  p = fma(e, all(-2.12194440e-4f), p);
  p = fma(z, all(-0.5f), p);
  return fma(e, all(0.693359375f), f + p);
}

// A multiple of sixteen.
NRS_INLINE int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }
// Distance of two rows of activations: columns 4 KB apart would share a place in the cache.
NRS_INLINE int64_t stride(int64_t rows) { return padded(rows) + LANES; }

}  // namespace
#endif
