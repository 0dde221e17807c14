/* ecgfed: what its sources need of a compiler; included by them alone.
 *
 * A fused multiply-add rounds once where Python rounds twice, and moves peaks and labels. GCC fuses unless it compiles
 * ISO C (-std=c99); Arduino and Zephyr compile gnu11 or gnu17.
 */
#ifndef ECGFED_BUILD_H
#define ECGFED_BUILD_H

#ifdef __FAST_MATH__
#error "ecgfed: compile without -ffast-math: other roundings move peaks and labels"
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("-ffp-contract=off")
#else
#pragma STDC FP_CONTRACT OFF
#endif

#endif
