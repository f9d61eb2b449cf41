/* What Rust knows of libavcodec's decoders: these functions. The Rust side is ffi.rs. */
#ifndef GLASSLINE_AVCODEC_SHIM_H
#define GLASSLINE_AVCODEC_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct glassline_avcodec glassline_avcodec;

/* A decoded picture; valid until the next call. */
typedef struct {
    /* 8 bits a sample. */
    const uint8_t *luma;
    /* Cb and Cr; NULL where there are none. */
    const uint8_t *chroma[2];
    int64_t stride;
    int64_t chroma_stride;
    int64_t pts;
    int32_t width;
    int32_t height;
    int32_t chroma_width;
    int32_t chroma_height;
    /* Below 0: chroma has a byte a sample; otherwise two, of which the lower byte is first, and so many bits more than 8. */
    int32_t chroma_shift;
    int32_t full_range;
    /* Code points of H.273. */
    int32_t primaries;
    int32_t transfer;
    int32_t matrix;
    /* Width to height of a sample; 0 where it is not known. */
    int32_t aspect_width;
    int32_t aspect_height;
} glassline_avcodec_picture;

/* Decoded sound, interleaved; valid until the next call. */
typedef struct {
    const float *samples;
    int64_t pts;
    int32_t frames;
    int32_t channels;
    int32_t rate_hz;
} glassline_avcodec_sound;

/* Which decoder. */
enum {
    GLASSLINE_AVCODEC_H264,
    GLASSLINE_AVCODEC_H265,
    GLASSLINE_AVCODEC_AV1,
    GLASSLINE_AVCODEC_MPEG2,
    GLASSLINE_AVCODEC_AAC,
    GLASSLINE_AVCODEC_MPEG_AUDIO,
    GLASSLINE_AVCODEC_AC3,
    GLASSLINE_AVCODEC_EAC3,
};

/* The shared object that is opened, and the major version of the headers it must have. Constants. */
const char *glassline_avcodec_library(void);
int32_t glassline_avcodec_library_version(void);
/* For the Rust side to compare. */
size_t glassline_avcodec_picture_bytes(void);
size_t glassline_avcodec_sound_bytes(void);

/* Opens the library and a decoder. NULL on failure, and a text of at most `reason_bytes`, NUL included, at
 * `reason`; with `exact` all pictures are what was coded, and without it key frames alone; `*absent` is 1 where the library cannot be opened. Pictures of more than `max_pixels` are errors, and so
 * are those for which the decoder would hold more than `max_bytes`; AV1's, which has an allocator of its own, are not counted. */
glassline_avcodec *glassline_avcodec_new(int32_t codec, int32_t exact, int64_t max_pixels, size_t max_bytes,
                                         char *reason, int32_t reason_bytes, int32_t *absent);
/* Takes an access unit (NULL: what is inside comes out, and no unit is taken until it is reset). 0, or below 0 an
 * error code. */
int32_t glassline_avcodec_push(glassline_avcodec *self, const uint8_t *unit, size_t bytes, int64_t pts);
/* 1: a picture; 0: none, or none any more; below 0 an error code. Pictures of formats without luma of their own, and damaged
 * ones, are left out. */
int32_t glassline_avcodec_poll_picture(glassline_avcodec *self, glassline_avcodec_picture *picture);
/* The same for sound. */
int32_t glassline_avcodec_poll_sound(glassline_avcodec *self, glassline_avcodec_sound *sound);
/* Forgets what is inside. */
void glassline_avcodec_reset(glassline_avcodec *self);
/* The text for an error code. */
void glassline_avcodec_error(const glassline_avcodec *self, int32_t code, char *reason, int32_t reason_bytes);
/* The library stays open. */
void glassline_avcodec_free(glassline_avcodec *self);

#endif
