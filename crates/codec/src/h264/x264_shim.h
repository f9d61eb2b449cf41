/* What Rust knows of libx264: these functions and no struct of its headers. The Rust side is x264_ffi.rs. */
#ifndef GLASSLINE_X264_SHIM_H
#define GLASSLINE_X264_SHIM_H

#include <stddef.h>
#include <stdint.h>

typedef struct glassline_x264 glassline_x264;

/* Only int32_t and pointers, the pointers first: the same layout on every ABI, mirrored by `RawSettings`. */
typedef struct glassline_x264_settings {
    const char *preset;
    /* x264's names for kinds of pictures, joined by commas; NULL for none. */
    const char *tune;
    /* The profile that is not to be left; NULL for any. */
    const char *profile;
    int32_t width, height;
    int32_t frame_rate_numerator, frame_rate_denominator;
    int32_t bitrate_kbit, vbv_kbit;
    int32_t key_interval;
    int32_t threads, slices;
    int32_t intra_refresh, filler;
    /* Each picture says its quantiser: there is no rate control, and no look at the picture for it. */
    int32_t quantizers_given;
    int32_t primaries, transfer, matrix, full_range;
    /* 0: progressive; otherwise interlaced, 1 with the top field first, 2 with the bottom one. */
    int32_t fields;
    /* Width to height of a sample; zero where nothing is known. */
    int32_t sample_width, sample_height;
    /* Pictures that are looked at before one is coded; below zero: there is no delay, and no picture waits in the encoder. */
    int32_t look_ahead;
    /* B-pictures between two others, with a look-ahead; below zero: as many as the preset has. */
    int32_t b_pictures;
    /* Reference pictures; below zero: as many as the preset has, and references_max at most, where that is not zero. */
    int32_t references, references_max;
    /* Hundredths of a constant rate factor, of which the bit rate is the ceiling; below zero: the bit rate is the mean. */
    int32_t crf_hundredths;
    /* Ten times the level, 9 for 1b; below zero: the lowest that fits. */
    int32_t level;
} glassline_x264_settings;

/* A NAL unit that x264 has finished, not yet written: to be turned into bytes by glassline_x264_nal_write within the
 * call, into room for `bytes_max`. Called on the caller's thread or on one of x264's, on several at a time. */
typedef void (*glassline_x264_nal_sink)(const void *context, void *x264, void *nal, size_t bytes_max, int32_t type,
                                        int32_t first_mb, int32_t last_mb);

/* A picture to encode. The widest members first: the same layout on every ABI, mirrored by `RawInput`. */
typedef struct glassline_x264_input {
    int64_t pts;
    const uint8_t *planes[3];
    /* Payload of an SEI message of unregistered user data, UUID first; NULL for none. */
    const uint8_t *user_data;
    glassline_x264_nal_sink sink;
    const void *context;
    int32_t strides[3];
    int32_t user_data_bytes;
    int32_t force_idr;
    /* Where quantizers are given. */
    int32_t quantizer;
} glassline_x264_input;

/* What became of it. */
typedef struct glassline_x264_output {
    int64_t pts, dts;
    /* Decoding can start here: IDR, or the begin of an intra refresh. */
    int32_t key_frame;
    int32_t reserved;
} glassline_x264_output;

/* Bytes of the structs above, for the Rust side to compare with its own. */
size_t glassline_x264_settings_bytes(void);
size_t glassline_x264_input_bytes(void);
size_t glassline_x264_output_bytes(void);

/* Name of preset `index`, or NULL after the last one. */
const char *glassline_x264_preset(size_t index);

/* Opens an encoder, or returns NULL and writes why into `error` (NUL-terminated). */
glassline_x264 *glassline_x264_open(const glassline_x264_settings *settings, char *error, size_t error_bytes);

/* Encodes a picture; its NAL units go to its sink before this returns. Returns 1, or 0 where no unit came out, or
 * below 0 on failure. */
int32_t glassline_x264_encode(glassline_x264 *self, const glassline_x264_input *input, glassline_x264_output *output);

/* Takes a picture's whole unit, Annex B form; slices begin at `head_bytes`. */
typedef void (*glassline_x264_unit_sink)(const void *context, const uint8_t *bytes, size_t count, size_t head_bytes);

/* With a look-ahead: takes a picture in (none where `input` is NULL: the source has ended) and gives the unit of an earlier
 * one to `sink` before it returns. `input` needs no sink, and its user data is not used. Returns 1, or 0 where no unit came
 * out, or below 0 on failure. */
int32_t glassline_x264_encode_delayed(glassline_x264 *self, const glassline_x264_input *input,
                                      glassline_x264_unit_sink sink, const void *context, glassline_x264_output *output);

/* Pictures that are inside, and how many there can be at most. */
int32_t glassline_x264_delayed(const glassline_x264 *self);
int32_t glassline_x264_delayed_max(const glassline_x264 *self);

/* Writes a NAL unit that a sink was called with, start code of 4 or 3 bytes first, and returns its bytes. */
size_t glassline_x264_nal_write(void *x264, void *nal, uint8_t *out, int32_t long_start_code);

/* Sets rate and VBV from the next picture on. Below 0 on failure. */
int32_t glassline_x264_set_rate(glassline_x264 *self, int32_t bitrate_kbit, int32_t vbv_kbit);

/* Has the next pictures analysed as `preset` does, as far as that can change while running. Below 0 on failure. */
int32_t glassline_x264_set_preset(glassline_x264 *self, const char *preset);

/* SPS, PPS and x264's own SEI of an encoder with these settings: copied to `out`, which has room for `room` bytes.
 * Returns their bytes, below 0 on failure (with the reason in `error`). */
int32_t glassline_x264_headers(const glassline_x264_settings *settings, uint8_t *out, size_t room, char *error,
                               size_t error_bytes);

/* Copies the last error that x264 logged, "" if there was none. */
void glassline_x264_error(glassline_x264 *self, char *error, size_t error_bytes);

void glassline_x264_close(glassline_x264 *self);

#endif
