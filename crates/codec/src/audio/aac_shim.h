/* What Rust knows of libavcodec's AAC encoder: these functions. The Rust side is aac_ffi.rs. */
#ifndef GLASSLINE_AAC_SHIM_H
#define GLASSLINE_AAC_SHIM_H

#include <stdint.h>

typedef struct glassline_aac_encoder glassline_aac_encoder;

/* The shared object that is opened, and the major version of the headers it must have. Constants. */
const char *glassline_aac_library(void);
int32_t glassline_aac_library_version(void);

/* Opens the library and an encoder. NULL on failure, and a text of at most `reason_bytes`, NUL included, at
 * `reason`; `*absent` is 1 where the library cannot be opened. */
glassline_aac_encoder *glassline_aac_encoder_new(int32_t rate_hz, int32_t channels, int32_t bitrate_bps,
                                                 char *reason, int32_t reason_bytes, int32_t *absent);
/* Samples a channel in a frame. */
int32_t glassline_aac_frame_samples(const glassline_aac_encoder *encoder);
/* Samples a channel by which what is decoded lags behind what was encoded. */
int32_t glassline_aac_lag(const glassline_aac_encoder *encoder);
/* Takes a frame of interleaved samples (NULL: no more will come). 0, or below 0 an error code. */
int32_t glassline_aac_push(glassline_aac_encoder *encoder, const float *samples);
/* Bytes of the next packet, copied to `packet`; 0: none yet, or none any more; below 0 an error code. */
int32_t glassline_aac_poll(glassline_aac_encoder *encoder, uint8_t *packet, int32_t packet_bytes);
/* The text for an error code. */
void glassline_aac_error(const glassline_aac_encoder *encoder, int32_t code, char *reason, int32_t reason_bytes);
/* The library stays open. */
void glassline_aac_encoder_free(glassline_aac_encoder *encoder);

#endif
