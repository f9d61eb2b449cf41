/* What Rust knows of dav1d: these functions. The Rust side is dav1d_ffi.rs. */
#ifndef GLASSLINE_DAV1D_SHIM_H
#define GLASSLINE_DAV1D_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct glassline_dav1d glassline_dav1d;

/* A picture; planes that there are none of are NULL. */
typedef struct glassline_dav1d_picture {
    const uint8_t *planes[3];
    int64_t strides[3];
    int32_t width;
    int32_t height;
    int32_t bits;
    /* Whether chroma is halved in both directions. */
    int32_t is_420;
    /* Code points of ISO/IEC 23091-2. */
    int32_t primaries;
    int32_t transfer;
    int32_t matrix;
    int32_t full_range;
} glassline_dav1d_picture;

size_t glassline_dav1d_picture_bytes(void);

/* NULL and a negative errno at `error` on failure. Pictures of more than `max_pixels` samples are refused. */
glassline_dav1d *glassline_dav1d_new(int32_t threads, uint32_t max_pixels, int32_t *error);
/* Decodes `unit`, which is copied. How many pictures it showed, the first of them at `picture`; or a negative errno. The
 * picture lies there until the next call. */
int32_t glassline_dav1d_decode(glassline_dav1d *self, const uint8_t *unit, size_t bytes,
                               glassline_dav1d_picture *picture);
void glassline_dav1d_free(glassline_dav1d *self);

#endif
