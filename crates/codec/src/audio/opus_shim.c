#include "opus_shim.h"

#include <stddef.h>

#include <opus.h>

enum { RATE_HZ = 48000 };

glassline_opus_encoder *glassline_opus_encoder_new(int32_t channels, int32_t bitrate_bps, int32_t speech,
                                                   int32_t loss_percent, int32_t *error)
{
    int application = speech ? OPUS_APPLICATION_VOIP : OPUS_APPLICATION_RESTRICTED_LOWDELAY;
    OpusEncoder *encoder = opus_encoder_create(RATE_HZ, channels, application, error);
    if (!encoder)
        return NULL;
    *error = opus_encoder_ctl(encoder, OPUS_SET_BITRATE(bitrate_bps));
    if (*error == OPUS_OK && speech)
        *error = opus_encoder_ctl(encoder, OPUS_SET_SIGNAL(OPUS_SIGNAL_VOICE));
    if (*error == OPUS_OK && speech)
        *error = opus_encoder_ctl(encoder, OPUS_SET_INBAND_FEC(1));
    if (*error == OPUS_OK && speech)
        *error = opus_encoder_ctl(encoder, OPUS_SET_PACKET_LOSS_PERC(loss_percent));
    if (*error == OPUS_OK)
        return encoder;
    opus_encoder_destroy(encoder);
    return NULL;
}

int32_t glassline_opus_lookahead(glassline_opus_encoder *encoder)
{
    opus_int32 lookahead = 0;
    int error = opus_encoder_ctl(encoder, OPUS_GET_LOOKAHEAD(&lookahead));
    return error == OPUS_OK ? lookahead : error;
}

int32_t glassline_opus_encode(glassline_opus_encoder *encoder, const float *samples, int32_t frames,
                              uint8_t *packet, int32_t packet_bytes)
{
    return opus_encode_float(encoder, samples, frames, packet, packet_bytes);
}

void glassline_opus_encoder_free(glassline_opus_encoder *encoder)
{
    opus_encoder_destroy(encoder);
}

glassline_opus_decoder *glassline_opus_decoder_new(int32_t channels, int32_t *error)
{
    return opus_decoder_create(RATE_HZ, channels, error);
}

int32_t glassline_opus_decode(glassline_opus_decoder *decoder, const uint8_t *packet, int32_t packet_bytes,
                              float *samples, int32_t frames, int32_t fec)
{
    return opus_decode_float(decoder, packet, packet_bytes, samples, frames, fec);
}

void glassline_opus_decoder_free(glassline_opus_decoder *decoder)
{
    opus_decoder_destroy(decoder);
}

const char *glassline_opus_error(int32_t code)
{
    return opus_strerror(code);
}
