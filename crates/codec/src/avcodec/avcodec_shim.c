/* libavcodec's decoders, opened when one is asked for: see libavcodec_open.h. */
#include "avcodec_shim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/buffer.h>
#include <libavutil/common.h>
#include <libavutil/error.h>
#include <libavutil/frame.h>
#include <libavutil/log.h>
#include <libavutil/pixdesc.h>

#define FUNCTIONS(each)                                                                                     \
    each(avcodec_version) each(avcodec_find_decoder) each(avcodec_alloc_context3) each(avcodec_open2)       \
    each(avcodec_send_packet) each(avcodec_receive_frame) each(avcodec_flush_buffers)                       \
    each(avcodec_free_context) each(av_packet_alloc) each(av_new_packet) each(av_packet_unref)              \
    each(av_packet_free) each(av_frame_alloc) each(av_frame_unref) each(av_frame_free) each(av_strerror)    \
    each(av_log_set_level) each(av_pix_fmt_desc_get) each(avcodec_default_get_buffer2)                      \
    each(av_buffer_create) each(av_buffer_unref)

#include "../libavcodec_open.h"

enum { CHANNELS_MAX = 8, FRAMES_MAX = 48000, UNIT_BYTES_MAX = 64 << 20 };

struct glassline_avcodec {
    struct functions call;
    AVCodecContext *context;
    AVFrame *frame;
    AVPacket *packet;
    /* Luma of more than 8 bits, or interleaved sound, as it is given. */
    void *converted;
    size_t converted_bytes;
    /* The pictures that the decoder holds, and how large they may be together. */
    size_t held_bytes;
    size_t held_bytes_max;
};

/* A buffer of the decoder's pool that is counted until it goes back. */
struct held {
    glassline_avcodec *decoder;
    AVBufferRef *buffer;
    size_t bytes;
};

static void let_go(void *opaque, uint8_t *data)
{
    struct held *held = opaque;
    (void)data;
    held->decoder->held_bytes -= held->bytes;
    held->decoder->call.av_buffer_unref(&held->buffer);
    free(held);
}

/* Puts a buffer that is counted in the place of `*buffer`. 0, or an error code. */
static int hold(glassline_avcodec *self, AVBufferRef **buffer)
{
    size_t bytes = (*buffer)->size;
    if (bytes > self->held_bytes_max - self->held_bytes)
        return AVERROR(ENOMEM);
    struct held *held = malloc(sizeof *held);
    AVBufferRef *counted = held ? self->call.av_buffer_create((*buffer)->data, bytes, let_go, held, 0) : NULL;
    if (!counted) {
        free(held);
        return AVERROR(ENOMEM);
    }
    *held = (struct held){self, *buffer, bytes};
    self->held_bytes += bytes;
    *buffer = counted;
    return 0;
}

/* libavcodec's own allocator, with a bound for all pictures of a decoder. */
static int get_buffer(AVCodecContext *context, AVFrame *frame, int flags)
{
    glassline_avcodec *self = context->opaque;
    int code = self->call.avcodec_default_get_buffer2(context, frame, flags);
    for (int at = 0; code >= 0 && at < AV_NUM_DATA_POINTERS && frame->buf[at]; at++)
        code = hold(self, &frame->buf[at]);
    for (int at = 0; code < 0 && at < AV_NUM_DATA_POINTERS; at++)
        self->call.av_buffer_unref(&frame->buf[at]);
    return code;
}

const char *glassline_avcodec_library(void)
{
    return LIBRARY;
}

int32_t glassline_avcodec_library_version(void)
{
    return LIBAVCODEC_VERSION_MAJOR;
}

size_t glassline_avcodec_picture_bytes(void)
{
    return sizeof(glassline_avcodec_picture);
}

size_t glassline_avcodec_sound_bytes(void)
{
    return sizeof(glassline_avcodec_sound);
}

static enum AVCodecID id_of(int32_t codec)
{
    switch (codec) {
    case GLASSLINE_AVCODEC_H264:
        return AV_CODEC_ID_H264;
    case GLASSLINE_AVCODEC_H265:
        return AV_CODEC_ID_HEVC;
    case GLASSLINE_AVCODEC_AV1:
        return AV_CODEC_ID_AV1;
    case GLASSLINE_AVCODEC_MPEG2:
        return AV_CODEC_ID_MPEG2VIDEO;
    case GLASSLINE_AVCODEC_AAC:
        return AV_CODEC_ID_AAC;
    case GLASSLINE_AVCODEC_MPEG_AUDIO:
        /* It decodes all three layers. */
        return AV_CODEC_ID_MP3;
    case GLASSLINE_AVCODEC_AC3:
        return AV_CODEC_ID_AC3;
    case GLASSLINE_AVCODEC_EAC3:
        return AV_CODEC_ID_EAC3;
    default:
        return AV_CODEC_ID_NONE;
    }
}

/* 0, or an error code; `*step` says what failed. */
static int open_decoder(glassline_avcodec *self, int32_t codec, int32_t exact, int64_t max_pixels, const char **step)
{
    const struct functions *call = &self->call;
    const AVCodec *decoder = call->avcodec_find_decoder(id_of(codec));
    *step = "it was built without this decoder";
    if (!decoder)
        return AVERROR_DECODER_NOT_FOUND;
    *step = "no memory";
    self->context = call->avcodec_alloc_context3(decoder);
    self->frame = call->av_frame_alloc();
    self->packet = call->av_packet_alloc();
    if (!self->context || !self->frame || !self->packet)
        return AVERROR(ENOMEM);
    AVCodecContext *context = self->context;
    /* No thread of its own: what a stream costs is bounded by the thread that decodes. */
    context->thread_count = 1;
    context->max_pixels = max_pixels;
    context->opaque = self;
    context->get_buffer2 = get_buffer;
    context->pkt_timebase = (AVRational){1, 1000000000};
    /* To see what changes between key frames the filter is not needed. It stands in the loop: without it pictures differ more and more
     * from those that were coded, up to the next key frame. */
    context->skip_loop_filter = exact ? AVDISCARD_DEFAULT : AVDISCARD_NONKEY;
    *step = "its decoder cannot be opened";
    return call->avcodec_open2(context, decoder, NULL);
}

glassline_avcodec *glassline_avcodec_new(int32_t codec, int32_t exact, int64_t max_pixels, size_t max_bytes,
                                         char *reason, int32_t reason_bytes, int32_t *absent)
{
    *absent = 0;
    glassline_avcodec *self = calloc(1, sizeof *self);
    if (!self) {
        snprintf(reason, (size_t)reason_bytes, "no memory");
        return NULL;
    }
    self->held_bytes_max = max_bytes;
    if (load(&self->call, reason, reason_bytes) < 0) {
        *absent = 1;
        free(self);
        return NULL;
    }
    /* It would tell of each damaged picture on standard error; they are counted instead. */
    self->call.av_log_set_level(AV_LOG_QUIET);
    const char *step = "";
    if (open_decoder(self, codec, exact, max_pixels, &step) < 0) {
        snprintf(reason, (size_t)reason_bytes, "%s", step);
        glassline_avcodec_free(self);
        return NULL;
    }
    return self;
}

int32_t glassline_avcodec_push(glassline_avcodec *self, const uint8_t *unit, size_t bytes, int64_t pts)
{
    const struct functions *call = &self->call;
    if (!unit)
        return call->avcodec_send_packet(self->context, NULL);
    /* An empty packet would end the stream. */
    if (bytes == 0 || bytes > UNIT_BYTES_MAX)
        return AVERROR(EINVAL);
    /* Decoders read beyond the end, which the copy allows them to. */
    int code = call->av_new_packet(self->packet, (int)bytes);
    if (code < 0)
        return code;
    memcpy(self->packet->data, unit, bytes);
    self->packet->pts = pts;
    self->packet->dts = AV_NOPTS_VALUE;
    code = call->avcodec_send_packet(self->context, self->packet);
    call->av_packet_unref(self->packet);
    return code;
}

/* 1: there is a frame; 0: none; below 0 an error code. */
static int receive(glassline_avcodec *self)
{
    int code = self->call.avcodec_receive_frame(self->context, self->frame);
    if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
        return 0;
    return code < 0 ? code : 1;
}

/* Room for converted samples; NULL where there is no memory. */
static void *room(glassline_avcodec *self, size_t bytes)
{
    if (bytes > self->converted_bytes) {
        void *larger = realloc(self->converted, bytes);
        if (!larger)
            return NULL;
        self->converted = larger;
        self->converted_bytes = bytes;
    }
    return self->converted;
}

/* Cb and Cr, where each has a plane of its own with the depth of luma. */
static void describe_chroma(const AVFrame *frame, const AVPixFmtDescriptor *format,
                            glassline_avcodec_picture *picture)
{
    const AVComponentDescriptor *luma = &format->comp[0];
    int bytes = luma->depth > 8 ? 2 : 1;
    int width = AV_CEIL_RSHIFT(frame->width, format->log2_chroma_w);
    if (format->nb_components < 3)
        return;
    for (int component = 1; component <= 2; component++) {
        const AVComponentDescriptor *chroma = &format->comp[component];
        if (chroma->plane != component || chroma->offset != 0 || chroma->step != bytes ||
            chroma->depth != luma->depth || chroma->shift != luma->shift ||
            frame->linesize[component] != frame->linesize[1] || frame->linesize[1] < width * bytes)
            return;
    }
    picture->chroma[0] = frame->data[1];
    picture->chroma[1] = frame->data[2];
    picture->chroma_stride = frame->linesize[1];
    picture->chroma_width = width;
    picture->chroma_height = AV_CEIL_RSHIFT(frame->height, format->log2_chroma_h);
    picture->chroma_shift = bytes == 2 ? luma->depth + luma->shift - 8 : -1;
}

/* 1: described; 0: its format has no luma of its own. */
static int describe(glassline_avcodec *self, glassline_avcodec_picture *picture)
{
    const AVFrame *frame = self->frame;
    const AVPixFmtDescriptor *format = self->call.av_pix_fmt_desc_get(frame->format);
    const uint64_t others = AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_PAL |
                            AV_PIX_FMT_FLAG_BITSTREAM | AV_PIX_FMT_FLAG_BE | AV_PIX_FMT_FLAG_FLOAT;
    if (!format || format->flags & others || format->nb_components < 1)
        return 0;
    const AVComponentDescriptor *luma = &format->comp[0];
    int bytes = luma->depth > 8 ? 2 : 1;
    if (luma->plane != 0 || luma->offset != 0 || luma->step != bytes || luma->depth < 8 || luma->depth > 16 ||
        frame->width <= 0 || frame->height <= 0 || frame->linesize[0] < frame->width * bytes)
        return 0;
    picture->luma = frame->data[0];
    picture->stride = frame->linesize[0];
    if (bytes == 2) {
        size_t width = (size_t)frame->width;
        uint8_t *into = room(self, width * (size_t)frame->height);
        if (!into)
            return 0;
        int shift = luma->depth + luma->shift - 8;
        for (int y = 0; y < frame->height; y++) {
            const uint8_t *from = frame->data[0] + (ptrdiff_t)y * frame->linesize[0];
            for (size_t x = 0; x < width; x++)
                into[(size_t)y * width + x] = (uint8_t)((from[2 * x] | from[2 * x + 1] << 8) >> shift);
        }
        picture->luma = into;
        picture->stride = frame->width;
    }
    describe_chroma(frame, format, picture);
    picture->pts = frame->pts;
    picture->width = frame->width;
    picture->height = frame->height;
    picture->primaries = frame->color_primaries;
    picture->transfer = frame->color_trc;
    picture->matrix = frame->colorspace;
    picture->aspect_width = frame->sample_aspect_ratio.num;
    picture->aspect_height = frame->sample_aspect_ratio.den;
    picture->full_range = frame->color_range == AVCOL_RANGE_JPEG || frame->format == AV_PIX_FMT_YUVJ420P ||
                          frame->format == AV_PIX_FMT_YUVJ422P || frame->format == AV_PIX_FMT_YUVJ444P;
    return 1;
}

int32_t glassline_avcodec_poll_picture(glassline_avcodec *self, glassline_avcodec_picture *picture)
{
    memset(picture, 0, sizeof *picture);
    for (;;) {
        self->call.av_frame_unref(self->frame);
        int code = receive(self);
        if (code <= 0)
            return code;
        int is_damaged = self->frame->decode_error_flags != 0 || self->frame->flags & AV_FRAME_FLAG_CORRUPT;
        if (!is_damaged && describe(self, picture))
            return 1;
    }
}

#define INTERLEAVE(type, scale)                                                                             \
    for (int channel = 0; channel < channels; channel++) {                                                  \
        const type *from = (const type *)(const void *)frame->extended_data[is_planar ? channel : 0];       \
        for (int at = 0; at < frame->nb_samples; at++)                                                      \
            into[at * channels + channel] =                                                                 \
                (float)from[is_planar ? at : at * channels + channel] * (scale);                            \
    }

/* 1: described; 0: its format is not known. */
static int interleave(glassline_avcodec *self, glassline_avcodec_sound *sound)
{
    const AVFrame *frame = self->frame;
    int channels = frame->ch_layout.nb_channels;
    if (channels < 1 || channels > CHANNELS_MAX || frame->nb_samples < 1 || frame->nb_samples > FRAMES_MAX)
        return 0;
    float *into = room(self, (size_t)channels * (size_t)frame->nb_samples * sizeof *into);
    if (!into)
        return 0;
    int is_planar = frame->format == AV_SAMPLE_FMT_FLTP || frame->format == AV_SAMPLE_FMT_S16P ||
                    frame->format == AV_SAMPLE_FMT_S32P;
    switch (frame->format) {
    case AV_SAMPLE_FMT_FLT:
    case AV_SAMPLE_FMT_FLTP:
        INTERLEAVE(float, 1.0f)
        break;
    case AV_SAMPLE_FMT_S16:
    case AV_SAMPLE_FMT_S16P:
        INTERLEAVE(int16_t, 1.0f / 32768)
        break;
    case AV_SAMPLE_FMT_S32:
    case AV_SAMPLE_FMT_S32P:
        INTERLEAVE(int32_t, 1.0f / 2147483648.0f)
        break;
    default:
        return 0;
    }
    sound->samples = into;
    sound->pts = frame->pts;
    sound->frames = frame->nb_samples;
    sound->channels = channels;
    sound->rate_hz = frame->sample_rate;
    return 1;
}

int32_t glassline_avcodec_poll_sound(glassline_avcodec *self, glassline_avcodec_sound *sound)
{
    memset(sound, 0, sizeof *sound);
    for (;;) {
        self->call.av_frame_unref(self->frame);
        int code = receive(self);
        if (code <= 0)
            return code;
        if (interleave(self, sound))
            return 1;
    }
}

void glassline_avcodec_reset(glassline_avcodec *self)
{
    self->call.av_frame_unref(self->frame);
    self->call.avcodec_flush_buffers(self->context);
}

void glassline_avcodec_error(const glassline_avcodec *self, int32_t code, char *reason, int32_t reason_bytes)
{
    self->call.av_strerror(code, reason, (size_t)reason_bytes);
}

void glassline_avcodec_free(glassline_avcodec *self)
{
    const struct functions *call = &self->call;
    if (self->packet)
        call->av_packet_free(&self->packet);
    if (self->frame)
        call->av_frame_free(&self->frame);
    if (self->context)
        call->avcodec_free_context(&self->context);
    free(self->converted);
    free(self);
}
