/* ecgfed: where a lead cannot be used, as Python finds it (docs/quality.md), up to 12 s later. */
#ifndef ECGFED_QUALITY_H
#define ECGFED_QUALITY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reasons for which a sample cannot be used, as bits. */
#define ECGFED_GAP 1U       /* no sample was recorded */
#define ECGFED_FLAT 2U      /* no more than 10 microvolt of change for a second */
#define ECGFED_RAIL 4U      /* at a limit of the converter for 20 ms */
#define ECGFED_SPIKE 8U     /* one excursion far outside the beats around it */
#define ECGFED_NOISE 16U    /* 15 to 40 Hz between the beats, high against them; or hum alone */
#define ECGFED_BASELINE 32U /* the baseline jumps by more than a beat's height */
#define ECGFED_REASONS 6

#define ECGFED_QUALITY_BLOCK 18 /* samples: 50 ms at 360 Hz */
#define ECGFED_QUALITY_UNIT 720 /* two seconds, which are judged at once */
#define ECGFED_QUALITY_BEFORE 2 /* units before the judged one, and after it, that a judgement can depend on */
#define ECGFED_QUALITY_AFTER 5
#define ECGFED_QUALITY_UNITS (ECGFED_QUALITY_BEFORE + 1 + ECGFED_QUALITY_AFTER)
#define ECGFED_QUALITY_SAMPLES (ECGFED_QUALITY_UNITS * ECGFED_QUALITY_UNIT)
#define ECGFED_QUALITY_BLOCKS (ECGFED_QUALITY_SAMPLES / ECGFED_QUALITY_BLOCK)
#define ECGFED_QUALITY_MISSING INT32_MIN

/* Called with the reasons of the next samples, a byte each; `start` is the number of the first one. */
typedef void (*ecgfed_on_quality)(void *user, int64_t start, const uint8_t *reasons, int32_t count);

/* The last valid sample before the buffer: where it is, below 0, and its millivolts. */
typedef struct {
    int32_t known, at;
    float mv;
} ecgfed_before;

/* State of a lead, owned by the caller; its fields are private. */
typedef struct {
    int32_t uv[ECGFED_QUALITY_SAMPLES]; /* microvolts, or ECGFED_QUALITY_MISSING */
    float mv[ECGFED_QUALITY_SAMPLES];   /* the same with bridged gaps */
    uint8_t marks[ECGFED_QUALITY_SAMPLES];
    float baseline[ECGFED_QUALITY_BLOCKS], value[ECGFED_QUALITY_BLOCKS], other[ECGFED_QUALITY_BLOCKS];
    uint8_t flag[ECGFED_QUALITY_BLOCKS];
    float tallest[ECGFED_QUALITY_UNITS + 2]; /* highest deviation in each unit from two before the buffer, -1 if lost */
    float height[ECGFED_QUALITY_UNITS];      /* of the beats around */
    int32_t count;    /* samples in the buffer */
    int32_t unit;     /* of the buffer, to be judged next */
    int32_t measured; /* units of the buffer whose highest deviation is known */
    int64_t start;    /* number of the buffer's first sample */
    int32_t low_uv, high_uv;
    ecgfed_before before_lost, before_unlike;
    ecgfed_on_quality on_quality;
    void *user;
} ecgfed_quality;

/* Begin a lead. A sample at or beyond one of the limits is saturated. */
void ecgfed_quality_init(ecgfed_quality *quality, int32_t low_uv, int32_t high_uv, ecgfed_on_quality call, void *user);
/* Take the next sample at 360 Hz; every two seconds this judges two seconds. */
void ecgfed_quality_push(ecgfed_quality *quality, int32_t uv, int32_t missing);
/* Judge the rest, as of a lead that ends here. */
void ecgfed_quality_finish(ecgfed_quality *quality);

#ifdef __cplusplus
}
#endif

#endif
