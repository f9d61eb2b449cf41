#include "aom_shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <aom/aom_encoder.h>
#include <aom/aomcx.h>

enum { KEY_NEVER = 999999, UNUSED_KBIT = 20000, QUANTIZER_MAX = 63 };

struct glassline_aom {
    aom_codec_ctx_t codec;
    aom_codec_enc_cfg_t config;
    aom_codec_iter_t packets;
    /* Counts what is encoded: libaom takes time stamps that grow, and nothing depends on them. */
    aom_codec_pts_t count;
    /* What failed beside the library. */
    const char *failed;
};

size_t glassline_aom_settings_bytes(void)
{
    return sizeof(glassline_aom_settings);
}

size_t glassline_aom_colour_bytes(void)
{
    return sizeof(glassline_aom_colour);
}

size_t glassline_aom_planes_bytes(void)
{
    return sizeof(glassline_aom_planes);
}

static void write_error(const glassline_aom *self, char *error, size_t error_bytes)
{
    /* These take a context that is not const, and change nothing in it. */
    aom_codec_ctx_t *codec = (aom_codec_ctx_t *)&self->codec;
    const char *text = aom_codec_error(codec), *detail = aom_codec_error_detail(codec);
    if (self->failed)
        snprintf(error, error_bytes, "%s", self->failed);
    else
        snprintf(error, error_bytes, "%s%s%s", text ? text : "", detail ? ": " : "", detail ? detail : "");
}

void glassline_aom_error(glassline_aom *self, char *error, size_t error_bytes)
{
    write_error(self, error, error_bytes);
}

static void configure(aom_codec_enc_cfg_t *config, const glassline_aom_settings *settings)
{
    config->g_w = (unsigned)settings->width;
    config->g_h = (unsigned)settings->height;
    config->g_timebase.num = settings->rate_denominator;
    config->g_timebase.den = settings->rate_numerator;
    config->g_threads = (unsigned)settings->threads;
    config->g_lag_in_frames = 0;
    /* Off: CDFs then come from the slot that a picture is predicted from, and are part of what lies there. */
    config->g_error_resilient = 0;
    /* The rate is not used: each picture has its quantizer. */
    config->rc_end_usage = AOM_CBR;
    config->rc_target_bitrate = UNUSED_KBIT;
    config->rc_dropframe_thresh = 0;
    config->rc_resize_mode = 0;
    config->rc_superres_mode = AOM_SUPERRES_NONE;
    config->rc_min_quantizer = config->rc_max_quantizer = QUANTIZER_MAX;
    config->kf_mode = AOM_KF_DISABLED;
    config->kf_max_dist = KEY_NEVER;
}

#define SET(control, value)                                          \
    do {                                                             \
        if (aom_codec_control(&self->codec, control, value)) {       \
            self->failed = NULL;                                     \
            return -1;                                               \
        }                                                            \
    } while (0)

/* Two layers in time, of which set_slots tells, each with this quantizer; with them come the slots that each picture names. */
static int set_layers(glassline_aom *self, int32_t quantizer)
{
    aom_svc_params_t layers = {
        .number_spatial_layers = 1,
        .number_temporal_layers = 2,
        .max_quantizers = { quantizer, quantizer },
        .min_quantizers = { quantizer, quantizer },
        .scaling_factor_num = { 1 },
        .scaling_factor_den = { 1 },
        .layer_target_bitrate = { UNUSED_KBIT, UNUSED_KBIT },
        .framerate_factor = { 1, 1 },
    };
    SET(AV1E_SET_SVC_PARAMS, &layers);
    return 0;
}

static int set_controls(glassline_aom *self, const glassline_aom_settings *settings)
{
    SET(AOME_SET_CPUUSED, settings->speed);
    SET(AV1E_SET_RTC_EXTERNAL_RC, 1);
    /* What would be state beside the slots, or make pictures count each other: off. */
    SET(AV1E_SET_AQ_MODE, 0);
    SET(AV1E_SET_DELTAQ_MODE, 0);
    SET(AV1E_SET_NOISE_SENSITIVITY, 0);
    SET(AV1E_SET_ENABLE_ORDER_HINT, 0);
    SET(AV1E_SET_ENABLE_REF_FRAME_MVS, 0);
    SET(AV1E_SET_ENABLE_TPL_MODEL, 0);
    SET(AV1E_SET_ENABLE_CDEF, 1);
    /* Tools that take more time than they are worth in real time. */
    SET(AV1E_SET_ENABLE_PALETTE, 0);
    SET(AV1E_SET_ENABLE_GLOBAL_MOTION, 0);
    SET(AV1E_SET_ENABLE_WARPED_MOTION, 0);
    SET(AV1E_SET_ENABLE_OBMC, 0);
    SET(AV1E_SET_ENABLE_CFL_INTRA, 0);
    SET(AV1E_SET_ENABLE_SMOOTH_INTRA, 0);
    SET(AV1E_SET_ENABLE_ANGLE_DELTA, 0);
    SET(AV1E_SET_ENABLE_FILTER_INTRA, 0);
    SET(AV1E_SET_CDF_UPDATE_MODE, 1);
    SET(AV1E_SET_COEFF_COST_UPD_FREQ, 3);
    SET(AV1E_SET_MODE_COST_UPD_FREQ, 3);
    SET(AV1E_SET_MV_COST_UPD_FREQ, 3);
    SET(AV1E_SET_TUNE_CONTENT, AOM_CONTENT_DEFAULT);
    SET(AV1E_SET_ROW_MT, settings->threads > 1);
    SET(AV1E_SET_TILE_COLUMNS, settings->tile_columns_log2);
    return set_layers(self, QUANTIZER_MAX);
}

glassline_aom *glassline_aom_new(const glassline_aom_settings *settings, char *error, size_t error_bytes)
{
    glassline_aom *self = calloc(1, sizeof *self);
    if (!self) {
        snprintf(error, error_bytes, "there is no memory for it");
        return NULL;
    }
    aom_codec_iface_t *av1 = aom_codec_av1_cx();
    if (aom_codec_enc_config_default(av1, &self->config, AOM_USAGE_REALTIME)) {
        snprintf(error, error_bytes, "it has no configuration for real time");
        free(self);
        return NULL;
    }
    configure(&self->config, settings);
    if (aom_codec_enc_init(&self->codec, av1, &self->config, 0)) {
        write_error(self, error, error_bytes);
        free(self);
        return NULL;
    }
    if (set_controls(self, settings)) {
        write_error(self, error, error_bytes);
        glassline_aom_free(self);
        return NULL;
    }
    return self;
}

int32_t glassline_aom_set_speed(glassline_aom *self, int32_t speed)
{
    SET(AOME_SET_CPUUSED, speed);
    return 0;
}

int32_t glassline_aom_set_colour(glassline_aom *self, const glassline_aom_colour *colour)
{
    SET(AV1E_SET_COLOR_PRIMARIES, colour->primaries);
    SET(AV1E_SET_TRANSFER_CHARACTERISTICS, colour->transfer);
    SET(AV1E_SET_MATRIX_COEFFICIENTS, colour->matrix);
    SET(AV1E_SET_COLOR_RANGE, colour->full_range);
    return 0;
}

static int set_quantizer(glassline_aom *self, int32_t quantizer)
{
    unsigned value = (unsigned)quantizer;
    if (self->config.rc_min_quantizer == value && self->config.rc_max_quantizer == value)
        return 0;
    self->config.rc_min_quantizer = self->config.rc_max_quantizer = value;
    self->failed = NULL;
    if (aom_codec_enc_config_set(&self->codec, &self->config))
        return -1;
    return set_layers(self, quantizer);
}

static int set_slots(glassline_aom *self, int32_t source, int32_t target, int32_t again)
{
    /* The seven names of references (AV1 specification 6.10.24): LAST is what is predicted from, and gives the CDFs. */
    enum { LAST = 0, LAST2 = 1, NAMES = 7 };
    aom_svc_ref_frame_config_t slots;
    memset(&slots, 0, sizeof slots);
    /* Names that are not used have to name a slot too. */
    for (int name = 0; name < NAMES; name++)
        slots.ref_idx[name] = source >= 0 ? source : target;
    slots.reference[LAST] = source >= 0;
    /* libaom writes only slots that one of the names stands for: without this line the picture would be left in no slot at
     * all, and nothing would say so. A key picture is left in all of them whatever this says, but libaom does not filter its
     * own copy of a picture that is left in none. */
    slots.ref_idx[LAST2] = target;
    slots.refresh[target] = 1;
    /* libaom looks for what stands still between a picture and the one that it was given before, and takes that for what
     * stands still between the picture and its source. Given one picture twice it would find that nothing moves, and code
     * hardly anything. Where the source was not the last one that it coded, it looks at the last picture of the lowest layer
     * instead: so a picture is of the upper layer the first time, and its second coding looks at an earlier one. */
    aom_svc_layer_id_t layer = { .spatial_layer_id = 0, .temporal_layer_id = source >= 0 && !again };
    SET(AV1E_SET_SVC_LAYER_ID, &layer);
    SET(AV1E_SET_SVC_REF_FRAME_CONFIG, &slots);
    return 0;
}

int32_t glassline_aom_encode(glassline_aom *self, const glassline_aom_planes *picture, int32_t quantizer,
                             int32_t source, int32_t target, int32_t again)
{
    self->packets = NULL;
    if (set_quantizer(self, quantizer) || set_slots(self, source, target, again))
        return -1;
    aom_image_t image;
    /* libaom does not write to it. */
    unsigned char *luma = (unsigned char *)picture->planes[0];
    if (!aom_img_wrap(&image, AOM_IMG_FMT_I420, (unsigned)picture->width, (unsigned)picture->height, 1, luma)) {
        self->failed = "the picture cannot be described to it";
        return -1;
    }
    for (int plane = 0; plane < 3; plane++) {
        image.planes[plane] = (unsigned char *)picture->planes[plane];
        image.stride[plane] = picture->strides[plane];
    }
    aom_enc_frame_flags_t flags = source < 0 ? AOM_EFLAG_FORCE_KF : 0;
    self->failed = NULL;
    return aom_codec_encode(&self->codec, &image, self->count++, 1, flags) ? -1 : 0;
}

int32_t glassline_aom_packet(glassline_aom *self, const uint8_t **bytes, size_t *length, int32_t *key)
{
    const aom_codec_cx_pkt_t *packet;
    while ((packet = aom_codec_get_cx_data(&self->codec, &self->packets))) {
        if (packet->kind != AOM_CODEC_CX_FRAME_PKT)
            continue;
        *bytes = packet->data.frame.buf;
        *length = packet->data.frame.sz;
        *key = (packet->data.frame.flags & AOM_FRAME_IS_KEY) != 0;
        return 1;
    }
    return 0;
}

int32_t glassline_aom_reconstruction(glassline_aom *self, glassline_aom_planes *picture)
{
    aom_image_t image;
    memset(&image, 0, sizeof image);
    SET(AV1_GET_NEW_FRAME_IMAGE, &image);
    if (image.fmt != AOM_IMG_FMT_I420) {
        self->failed = "its picture is not of 8 bits";
        return -1;
    }
    for (int plane = 0; plane < 3; plane++) {
        picture->planes[plane] = image.planes[plane];
        picture->strides[plane] = image.stride[plane];
    }
    picture->width = (int32_t)image.d_w;
    picture->height = (int32_t)image.d_h;
    return 0;
}

void glassline_aom_free(glassline_aom *self)
{
    aom_codec_destroy(&self->codec);
    free(self);
}
