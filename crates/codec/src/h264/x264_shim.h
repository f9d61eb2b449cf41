/* What Rust knows of libx264: these functions and no struct of its headers. The Rust side is x264_ffi.rs. */
#ifndef GLASSLINE_X264_SHIM_H
#define GLASSLINE_X264_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct glassline_x264 glassline_x264;

/* Only int32_t and a pointer, the pointer first: the same layout on every ABI, mirrored by `RawSettings`. */
typedef struct glassline_x264_settings {
    const char *preset;
    int32_t width, height;
    int32_t frame_rate_numerator, frame_rate_denominator;
    int32_t bitrate_kbit, vbv_kbit;
    int32_t key_interval;
    int32_t threads, sliced_threads, slices;
    int32_t primaries, transfer, matrix, full_range;
} glassline_x264_settings;

/* Bytes of the struct above, for the Rust side to compare with its own. */
size_t glassline_x264_settings_bytes(void);

/* Name of preset `index`, or NULL after the last one. */
const char *glassline_x264_preset(size_t index);

/* Opens an encoder, or returns NULL and writes why into `error` (NUL-terminated). */
glassline_x264 *glassline_x264_open(const glassline_x264_settings *settings, char *error, size_t error_bytes);

/* Encodes a picture; `planes` NULL drains instead. Returns the bytes at `*data` (valid until the next call), 0 if
 * no unit came out, below 0 on failure. */
int32_t glassline_x264_encode(glassline_x264 *self, const uint8_t *const planes[3], const int32_t strides[3],
                              int64_t pts, int32_t force_idr, const uint8_t **data, int64_t *unit_pts,
                              int64_t *unit_dts, int32_t *is_idr);

/* SPS, PPS and x264's own SEI. Returns the bytes at `*data` (valid until the next call), below 0 on failure. */
int32_t glassline_x264_headers(glassline_x264 *self, const uint8_t **data);

/* Pictures that went in and have not come out. */
int32_t glassline_x264_delayed(glassline_x264 *self);

/* Copies the last error that x264 logged, "" if there was none. */
void glassline_x264_error(glassline_x264 *self, char *error, size_t error_bytes);

void glassline_x264_close(glassline_x264 *self);

#endif
