/* ecgfed: missing, saturated and flat samples around a beat. */
#include "ecgfed_build.h"

#include "ecgfed_signal.h"

#include <string.h>

#include "ecgfed_net.h"

#define STILL_MV 0.010f
#define FLAT_UV 10
#define FLAT_SAMPLES 360   /* a second */
#define RAIL_SAMPLES 8     /* 20 ms */
#define LONG_RAIL 108      /* 0.3 s */
#define RAIL_NEAR 36       /* 0.1 s */
#define QRS_BEFORE 25
#define QRS_AFTER 36

/* Which samples of the window show nothing. */
typedef struct {
    uint8_t lost[ECGFED_WINDOW];
} lost_samples;

static int32_t microvolts(int32_t stored)
{
    return (stored - (stored % 2 != 0 ? 1 : 0)) / 2;
}

static int32_t is_saturated(const ecgfed_surroundings *around, int32_t index)
{
    const int32_t uv = microvolts(around->ring[index]);
    return uv <= around->low_uv || uv >= around->high_uv;
}

/* Mark ring samples from `start` to `stop` (not included) that lie in the window. */
static void mark(const ecgfed_surroundings *around, int32_t start, int32_t stop, lost_samples *window)
{
    const int32_t first = around->peak - ECGFED_R_INDEX;
    for (int32_t i = start > first ? start : first; i < stop && i < first + ECGFED_WINDOW; i++) {
        window->lost[i - first] = 1;
    }
}

static void mark_missing(const ecgfed_surroundings *around, lost_samples *window)
{
    const int32_t first = around->peak - ECGFED_R_INDEX;
    for (int32_t i = first; i < first + ECGFED_WINDOW; i++) {
        const int32_t outside = i < 0 ? around->gap_before : i >= around->count ? around->gap_after : 0;
        if (outside || (i >= 0 && i < around->count && around->ring[i] % 2 != 0)) {
            mark(around, i, i + 1, window);
        }
    }
}

/* Mark where the lead stays saturated; return 1 if it does so for long, near the R peak. */
static int32_t mark_saturated(const ecgfed_surroundings *around, int32_t first, int32_t stop, lost_samples *window)
{
    int32_t run = 0, close = 0;
    for (int32_t i = first; i <= stop; i++) {
        if (i < stop && is_saturated(around, i)) {
            run++;
            continue;
        }
        if (run >= RAIL_SAMPLES) {
            mark(around, i - run, i, window);
        }
        if (run >= LONG_RAIL && i > around->peak - RAIL_NEAR && i - run <= around->peak + RAIL_NEAR) {
            close = 1;
        }
        run = 0;
    }
    return close;
}

/* Mark every second that moves by no more than FLAT_UV. `start` is the first sample of a line that ends at `i`. */
static void mark_flat(const ecgfed_surroundings *around, int32_t first, int32_t stop, lost_samples *window)
{
    int32_t start = first, low = 0, high = 0;
    for (int32_t i = first; i < stop; i++) {
        const int32_t uv = microvolts(around->ring[i]);
        if (around->ring[i] % 2 != 0) {
            start = i + 1;
            continue;
        }
        low = i == start || uv < low ? uv : low;
        high = i == start || uv > high ? uv : high;
        if (high - low > FLAT_UV) { /* begin again with the samples before this one that are like it */
            low = uv;
            high = uv;
            for (start = i; start > first; start--) {
                const int32_t before = microvolts(around->ring[start - 1]);
                const int32_t lower = before < low ? before : low, higher = before > high ? before : high;
                if (higher - lower > FLAT_UV || around->ring[start - 1] % 2 != 0) {
                    break;
                }
                low = lower;
                high = higher;
            }
        }
        if (i - start + 1 >= FLAT_SAMPLES) {
            mark(around, i - FLAT_SAMPLES + 1, i + 1, window);
        }
    }
}

static int32_t lost_between(const lost_samples *window, int32_t start, int32_t stop)
{
    int32_t count = 0;
    for (int32_t i = start; i < stop; i++) {
        count += window->lost[i];
    }
    return count;
}

static int32_t is_still(const float *window_mv)
{
    float low = window_mv[0], high = window_mv[0];
    for (int32_t i = 1; i < ECGFED_WINDOW; i++) {
        low = window_mv[i] < low ? window_mv[i] : low;
        high = window_mv[i] > high ? window_mv[i] : high;
    }
    return high - low <= STILL_MV;
}

/* Mark all samples of the window that show nothing; return 1 if the lead stays saturated for long, near the R peak. */
static int32_t mark_all(const ecgfed_surroundings *around, lost_samples *window)
{
    const int32_t before = around->peak - ECGFED_R_INDEX - FLAT_SAMPLES + 1;
    const int32_t after = around->peak - ECGFED_R_INDEX + ECGFED_WINDOW + FLAT_SAMPLES - 1;
    const int32_t first = before < 0 ? 0 : before, stop = after < around->count ? after : around->count;
    int32_t long_rail;
    (void)memset(window, 0, sizeof *window);
    mark_missing(around, window);
    long_rail = mark_saturated(around, first, stop, window);
    mark_flat(around, first, stop, window);
    return long_rail;
}

int32_t ecgfed_without_signal(const ecgfed_surroundings *around, const float *window_mv)
{
    const int32_t qrs = ECGFED_R_INDEX - QRS_BEFORE, qrs_stop = ECGFED_R_INDEX + QRS_AFTER;
    lost_samples window;
    const int32_t long_rail = mark_all(around, &window);
    return long_rail || is_still(window_mv) || 2 * lost_between(&window, 0, ECGFED_WINDOW) >= ECGFED_WINDOW ||
           2 * lost_between(&window, qrs, qrs_stop) >= qrs_stop - qrs;
}

int32_t ecgfed_hides_signal(const ecgfed_surroundings *around)
{
    lost_samples window;
    (void)mark_all(around, &window);
    return lost_between(&window, 0, ECGFED_WINDOW) > 0;
}

int32_t ecgfed_hides_beat(const ecgfed_surroundings *around, int32_t interval, int32_t least)
{
    int32_t run = 0, longest = 0;
    for (int32_t i = around->peak > interval ? around->peak - interval : 0; i < around->peak; i++) {
        run = around->ring[i] % 2 != 0 || is_saturated(around, i) ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    return longest >= least;
}
