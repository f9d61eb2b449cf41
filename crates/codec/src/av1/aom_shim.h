/* What Rust knows of libaom: these functions. The Rust side is aom_ffi.rs. */
#ifndef GLASSLINE_AOM_SHIM_H
#define GLASSLINE_AOM_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct glassline_aom glassline_aom;

typedef struct glassline_aom_settings {
    int32_t width;
    int32_t height;
    /* Pictures a second, at least 1; both up to 1,000,000,000. */
    int32_t rate_numerator;
    int32_t rate_denominator;
    int32_t threads;
    /* Columns of tiles, as a power of two. */
    int32_t tile_columns_log2;
    /* cpu-used, 7 to 10. */
    int32_t speed;
} glassline_aom_settings;

/* Code points of ISO/IEC 23091-2. */
typedef struct glassline_aom_colour {
    int32_t primaries;
    int32_t transfer;
    int32_t matrix;
    int32_t full_range;
} glassline_aom_colour;

/* Three planes of 8-bit 4:2:0, chroma rounded up. */
typedef struct glassline_aom_planes {
    const uint8_t *planes[3];
    int32_t strides[3];
    int32_t width;
    int32_t height;
} glassline_aom_planes;

size_t glassline_aom_settings_bytes(void);
size_t glassline_aom_colour_bytes(void);
size_t glassline_aom_planes_bytes(void);

/* NULL and a text at `error` on failure. */
glassline_aom *glassline_aom_new(const glassline_aom_settings *settings, char *error, size_t error_bytes);
/* What follows returns 0, or another number on failure, whose text glassline_aom_error has. */
int32_t glassline_aom_set_speed(glassline_aom *self, int32_t speed);
int32_t glassline_aom_set_colour(glassline_aom *self, const glassline_aom_colour *colour);
/* Encodes a picture of the size that the encoder was opened with. It is predicted from slot `source` and left in slot
 * `target` alone; where `source` is below 0 it is a key picture, which all slots hold afterwards. `again` other than 0: it is
 * the picture that was encoded last. The planes are read during the call alone. */
int32_t glassline_aom_encode(glassline_aom *self, const glassline_aom_planes *picture, int32_t quantizer,
                             int32_t source, int32_t target, int32_t again);
/* The next packet of what was encoded last: 1 and where it lies until the next call of glassline_aom_encode, or 0. */
int32_t glassline_aom_packet(glassline_aom *self, const uint8_t **bytes, size_t *length, int32_t *key);
/* What decoders show for what was encoded last; it lies there until the next call of glassline_aom_encode. */
int32_t glassline_aom_reconstruction(glassline_aom *self, glassline_aom_planes *picture);
void glassline_aom_error(glassline_aom *self, char *error, size_t error_bytes);
void glassline_aom_free(glassline_aom *self);

#endif
