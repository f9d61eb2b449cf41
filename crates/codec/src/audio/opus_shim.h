/* What Rust knows of libopus: these functions. Always 48 kHz. The Rust side is opus_ffi.rs. */
#ifndef GLASSLINE_OPUS_SHIM_H
#define GLASSLINE_OPUS_SHIM_H

#include <stdint.h>

typedef struct OpusEncoder glassline_opus_encoder;
typedef struct OpusDecoder glassline_opus_decoder;

/* NULL and a code at `*error` on failure. `speech` other than 0: the mode for talk, whose packets also hold the one before
 * them, coarsely, against `loss_percent` of losses. */
glassline_opus_encoder *glassline_opus_encoder_new(int32_t channels, int32_t bitrate_bps, int32_t speech,
                                                   int32_t loss_percent, int32_t *error);
/* Samples a channel by which what is decoded lags behind what was encoded; below 0 an error code. */
int32_t glassline_opus_lookahead(glassline_opus_encoder *encoder);
/* Bytes written to `packet`, below 0 an error code. `samples` holds `frames` times the channels. */
int32_t glassline_opus_encode(glassline_opus_encoder *encoder, const float *samples, int32_t frames,
                              uint8_t *packet, int32_t packet_bytes);
void glassline_opus_encoder_free(glassline_opus_encoder *encoder);

glassline_opus_decoder *glassline_opus_decoder_new(int32_t channels, int32_t *error);
/* Samples a channel written to `samples`, which has room for `frames`, below 0 an error code. `packet` NULL
 * conceals `frames` lost ones; with `fec` other than 0 it is the packet behind `frames` lost ones, which are given as far
 * as it holds them. */
int32_t glassline_opus_decode(glassline_opus_decoder *decoder, const uint8_t *packet, int32_t packet_bytes,
                              float *samples, int32_t frames, int32_t fec);
void glassline_opus_decoder_free(glassline_opus_decoder *decoder);

/* A constant text for an error code. */
const char *glassline_opus_error(int32_t code);

#endif
