/* libavcodec's own AAC-LC encoder, opened when it is asked for: see libavcodec_open.h. */
#include "aac_shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/channel_layout.h>
#include <libavutil/error.h>
#include <libavutil/frame.h>
#include <libavutil/log.h>

#define FUNCTIONS(each)                                                                                     \
    each(avcodec_version) each(avcodec_find_encoder_by_name) each(avcodec_alloc_context3)                   \
    each(avcodec_open2) each(avcodec_send_frame) each(avcodec_receive_packet) each(avcodec_free_context)    \
    each(av_packet_alloc) each(av_packet_free) each(av_packet_unref) each(av_frame_alloc)                   \
    each(av_frame_free) each(av_frame_get_buffer) each(av_frame_make_writable) each(av_strerror)            \
    each(av_log_set_level) each(av_channel_layout_default)

#include "../libavcodec_open.h"

struct glassline_aac_encoder {
    struct functions call;
    AVCodecContext *context;
    AVFrame *frame;
    AVPacket *packet;
    int64_t samples;
};

const char *glassline_aac_library(void)
{
    return LIBRARY;
}

int32_t glassline_aac_library_version(void)
{
    return LIBAVCODEC_VERSION_MAJOR;
}

/* 0, or an error code; `*step` says what failed. */
static int open_encoder(glassline_aac_encoder *encoder, int32_t rate_hz, int32_t channels, int32_t bitrate_bps,
                        const char **step)
{
    const struct functions *call = &encoder->call;
    const AVCodec *codec = call->avcodec_find_encoder_by_name("aac");
    *step = "it was built without its AAC encoder";
    if (!codec)
        return AVERROR_ENCODER_NOT_FOUND;
    *step = "no memory";
    encoder->context = call->avcodec_alloc_context3(codec);
    encoder->frame = call->av_frame_alloc();
    encoder->packet = call->av_packet_alloc();
    if (!encoder->context || !encoder->frame || !encoder->packet)
        return AVERROR(ENOMEM);
    AVCodecContext *context = encoder->context;
    context->sample_fmt = AV_SAMPLE_FMT_FLTP;
    context->sample_rate = rate_hz;
    context->bit_rate = bitrate_bps;
    context->time_base = (AVRational){1, rate_hz};
#ifdef AV_PROFILE_AAC_LOW
    context->profile = AV_PROFILE_AAC_LOW;
#else
    context->profile = FF_PROFILE_AAC_LOW;
#endif
    call->av_channel_layout_default(&context->ch_layout, channels);
    *step = "its AAC encoder refuses the settings";
    int code = call->avcodec_open2(context, codec, NULL);
    if (code < 0)
        return code;
    AVFrame *frame = encoder->frame;
    frame->format = context->sample_fmt;
    frame->sample_rate = rate_hz;
    frame->nb_samples = context->frame_size;
    call->av_channel_layout_default(&frame->ch_layout, channels);
    *step = "no memory for samples";
    return call->av_frame_get_buffer(frame, 0);
}

glassline_aac_encoder *glassline_aac_encoder_new(int32_t rate_hz, int32_t channels, int32_t bitrate_bps,
                                                 char *reason, int32_t reason_bytes, int32_t *absent)
{
    *absent = 0;
    glassline_aac_encoder *encoder = calloc(1, sizeof *encoder);
    if (!encoder) {
        snprintf(reason, (size_t)reason_bytes, "no memory");
        return NULL;
    }
    if (load(&encoder->call, reason, reason_bytes) < 0) {
        *absent = 1;
        free(encoder);
        return NULL;
    }
    /* It would tell statistics on standard error; what fails is told by its code. Decoders of the same library share the level. */
    encoder->call.av_log_set_level(AV_LOG_QUIET);
    const char *step = "";
    if (open_encoder(encoder, rate_hz, channels, bitrate_bps, &step) < 0) {
        snprintf(reason, (size_t)reason_bytes, "%s", step);
        glassline_aac_encoder_free(encoder);
        return NULL;
    }
    return encoder;
}

int32_t glassline_aac_frame_samples(const glassline_aac_encoder *encoder)
{
    return encoder->context->frame_size;
}

int32_t glassline_aac_lag(const glassline_aac_encoder *encoder)
{
    return encoder->context->initial_padding;
}

int32_t glassline_aac_push(glassline_aac_encoder *encoder, const float *samples)
{
    const struct functions *call = &encoder->call;
    if (!samples)
        return call->avcodec_send_frame(encoder->context, NULL);
    AVFrame *frame = encoder->frame;
    int code = call->av_frame_make_writable(frame);
    if (code < 0)
        return code;
    int channels = encoder->context->ch_layout.nb_channels;
    for (int channel = 0; channel < channels; channel++) {
        float *plane = (float *)(void *)frame->extended_data[channel];
        for (int at = 0; at < frame->nb_samples; at++)
            plane[at] = samples[at * channels + channel];
    }
    frame->pts = encoder->samples;
    encoder->samples += frame->nb_samples;
    return call->avcodec_send_frame(encoder->context, frame);
}

int32_t glassline_aac_poll(glassline_aac_encoder *encoder, uint8_t *packet, int32_t packet_bytes)
{
    const struct functions *call = &encoder->call;
    int code = call->avcodec_receive_packet(encoder->context, encoder->packet);
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
        return 0;
    if (code < 0)
        return code;
    int bytes = encoder->packet->size;
    if (bytes > packet_bytes)
        bytes = AVERROR(ENOBUFS);
    else
        memcpy(packet, encoder->packet->data, (size_t)bytes);
    call->av_packet_unref(encoder->packet);
    return bytes;
}

void glassline_aac_error(const glassline_aac_encoder *encoder, int32_t code, char *reason, int32_t reason_bytes)
{
    encoder->call.av_strerror(code, reason, (size_t)reason_bytes);
}

void glassline_aac_encoder_free(glassline_aac_encoder *encoder)
{
    const struct functions *call = &encoder->call;
    if (encoder->packet)
        call->av_packet_free(&encoder->packet);
    if (encoder->frame)
        call->av_frame_free(&encoder->frame);
    if (encoder->context)
        call->avcodec_free_context(&encoder->context);
    free(encoder);
}
