#include "x264_shim.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <x264.h>

struct glassline_x264 {
    x264_t *encoder;
    /* References that were asked for; below zero: the preset's. */
    int32_t references;
    /* As set, what was changed while running included; x264's own copy lags behind until the next picture. */
    x264_param_t param;
    /* Where NAL units go; set only while a picture is encoded. */
    glassline_x264_nal_sink sink;
    const void *context;
    /* x264's threads may log: whoever finds this set leaves the text alone. */
    atomic_flag error_in_use;
    char error[256];
};

/* Stands in for x264's log, which would go to stderr. Only errors arrive here (i_log_level). */
static void keep_error(void *opaque, int level, const char *format, va_list arguments)
{
    glassline_x264 *self = opaque;
    if (level > X264_LOG_ERROR || atomic_flag_test_and_set(&self->error_in_use))
        return;
    vsnprintf(self->error, sizeof self->error, format, arguments);
    self->error[strcspn(self->error, "\n")] = 0;
    atomic_flag_clear(&self->error_in_use);
}

/* x264's nalu_process. Without frame threads and look-ahead a picture's NAL units come only while it is encoded. */
static void process_nal(x264_t *x264, x264_nal_t *nal, void *opaque)
{
    const glassline_x264 *self = opaque;
    if (self && self->sink)
        self->sink(self->context, x264, nal, (size_t)nal->i_payload * 3 / 2 + 5 + 64, nal->i_type, nal->i_first_mb,
                   nal->i_last_mb);
}

size_t glassline_x264_nal_write(void *x264, void *nal, uint8_t *out, int32_t long_start_code)
{
    x264_nal_t *unit = nal;
    unit->b_long_startcode = long_start_code;
    x264_nal_encode(x264, out, unit);
    return (size_t)unit->i_payload;
}

size_t glassline_x264_settings_bytes(void)
{
    return sizeof(glassline_x264_settings);
}

size_t glassline_x264_input_bytes(void)
{
    return sizeof(glassline_x264_input);
}

size_t glassline_x264_output_bytes(void)
{
    return sizeof(glassline_x264_output);
}

const char *glassline_x264_preset(size_t index)
{
    const size_t count = sizeof x264_preset_names / sizeof *x264_preset_names;
    return index < count ? x264_preset_names[index] : NULL;
}

static int configure(x264_param_t *param, const glassline_x264_settings *settings, glassline_x264 *self)
{
    const int delayed = settings->look_ahead >= 0;
    if (x264_param_default_preset(param, settings->preset, settings->tune) < 0) {
        snprintf(self->error, sizeof self->error, "preset %s is unknown", settings->preset);
        return -1;
    }
    param->pf_log = keep_error;
    param->p_log_private = self;
    param->i_log_level = X264_LOG_ERROR;

    param->i_csp = X264_CSP_I420;
    param->i_bitdepth = 8;
    param->i_width = settings->width;
    param->i_height = settings->height;
    param->i_threads = settings->threads ? settings->threads : X264_THREADS_AUTO;
    /* Without delay all threads work on one picture: its unit comes out of the call that takes the picture in. With a look-ahead
     * each works on a picture of its own, which costs no slices. */
    param->b_sliced_threads = !delayed;
    if (delayed) {
        param->rc.i_lookahead = settings->look_ahead;
        if (settings->look_ahead == 0)
            param->rc.b_mb_tree = 0;
        if (settings->b_pictures >= 0)
            param->i_bframe = settings->b_pictures;
    }
    if (settings->references >= 0)
        param->i_frame_reference = settings->references;
    if (settings->references_max && param->i_frame_reference > settings->references_max)
        param->i_frame_reference = settings->references_max;
    param->i_level_idc = settings->level;
    if (!delayed && settings->threads != 1 && settings->slices) {
        /* With sliced threads x264 overrides i_slice_count by the threads; a slice's largest size it keeps. */
        /* Interlaced, rows of macroblocks go in pairs. */
        int unit = settings->fields ? 2 : 1;
        int columns = (settings->width + 15) / 16, rows = (settings->height + 16 * unit - 1) / (16 * unit);
        param->i_slice_max_mbs = columns * unit * (rows > settings->slices ? rows / settings->slices : 1);
    } else {
        param->i_slice_count = settings->slices;
    }

    /* Rate control and the SPS take the nominal rate; time stamps pass through untouched. Without a look-ahead
     * x264 knows no picture's true duration anyway, and with variable-rate input the SPS would announce the
     * 90 kHz clock as the frame rate. */
    param->b_vfr_input = 0;
    param->i_fps_num = settings->frame_rate_numerator;
    param->i_fps_den = settings->frame_rate_denominator;

    param->i_keyint_max = settings->key_interval;
    param->i_scenecut_threshold = 0;
    param->b_open_gop = 0;
    param->b_intra_refresh = settings->intra_refresh;
    param->b_repeat_headers = 1;
    param->b_annexb = 1;
    param->b_aud = 1;

    param->rc.i_rc_method = X264_RC_ABR;
    param->rc.i_bitrate = settings->bitrate_kbit;
    param->rc.i_vbv_max_bitrate = settings->bitrate_kbit;
    param->rc.i_vbv_buffer_size = settings->vbv_kbit;
    /* Without HRD: its buffering period can be told only when the picture is finished, too late for slices that
     * have left; and its rate may not change while running. */
    param->rc.b_filler = settings->filler;
    if (settings->crf_hundredths >= 0) {
        param->rc.i_rc_method = X264_RC_CRF;
        param->rc.f_rf_constant = settings->crf_hundredths / 100.0f;
    }
    if (settings->quantizers_given) {
        param->rc.i_rc_method = X264_RC_CQP;
        /* Each picture has its own; x264 keeps them between its constants for I and B, 8 and 51 with these. */
        param->rc.i_qp_constant = 30;
        param->rc.f_ip_factor = 12.7f;
        param->rc.f_pb_factor = 11.4f;
        /* Weights would be looked for at half size before coding begins. */
        param->analyse.i_weighted_pred = X264_WEIGHTP_NONE;
        param->rc.i_bitrate = param->rc.i_vbv_max_bitrate = param->rc.i_vbv_buffer_size = 0;
    }

    if (settings->fields) {
        param->b_interlaced = 1;
        param->b_tff = settings->fields == 1;
        /* Each picture says in its timing message which field comes first. */
        param->b_pic_struct = 1;
    }

    param->vui.i_colorprim = settings->primaries;
    param->vui.i_transfer = settings->transfer;
    param->vui.i_colmatrix = settings->matrix;
    param->vui.b_fullrange = settings->full_range;
    /* x264 shortens them, and says nothing where they are zero. */
    param->vui.i_sar_width = settings->sample_width;
    param->vui.i_sar_height = settings->sample_height;
    if (settings->profile && x264_param_apply_profile(param, settings->profile) < 0) {
        if (!self->error[0])
            snprintf(self->error, sizeof self->error, "profile %s does not hold these settings", settings->profile);
        return -1;
    }
    return 0;
}

glassline_x264 *glassline_x264_open(const glassline_x264_settings *settings, char *error, size_t error_bytes)
{
    glassline_x264 *self = calloc(1, sizeof *self);
    if (!self) {
        snprintf(error, error_bytes, "out of memory");
        return NULL;
    }
    self->references = settings->references;
    atomic_flag_clear(&self->error_in_use);
    if (configure(&self->param, settings, self) == 0) {
        /* With a look-ahead a picture comes out whole. */
        if (settings->look_ahead < 0)
            self->param.nalu_process = process_nal;
        self->encoder = x264_encoder_open(&self->param);
    }
    if (self->encoder) {
        x264_encoder_parameters(self->encoder, &self->param);
        return self;
    }
    glassline_x264_error(self, error, error_bytes);
    free(self);
    return NULL;
}

/* The picture as x264 takes it. */
static void fill_picture(x264_picture_t *in, const glassline_x264_input *input)
{
    x264_picture_init(in);
    in->img.i_csp = X264_CSP_I420;
    in->img.i_plane = 3;
    for (int i = 0; i < 3; i++) {
        /* x264 copies from here and writes nothing back. */
        in->img.plane[i] = (uint8_t *)input->planes[i];
        in->img.i_stride[i] = input->strides[i];
    }
    in->i_pts = input->pts;
    in->i_type = input->force_idr ? X264_TYPE_IDR : X264_TYPE_AUTO;
}

int32_t glassline_x264_encode(glassline_x264 *self, const glassline_x264_input *input, glassline_x264_output *output)
{
    x264_picture_t in, out;
    x264_nal_t *nal = NULL;
    int nal_count = 0;
    fill_picture(&in, input);
    if (self->param.rc.i_rc_method == X264_RC_CQP)
        in.i_qpplus1 = input->quantizer + 1;
    in.opaque = self;
    /* Without sei_free x264 leaves both to us: it reads them while it encodes the picture, in this call. */
    x264_sei_payload_t user_data = {input->user_data_bytes, 5, (uint8_t *)input->user_data};
    if (input->user_data) {
        in.extra_sei.num_payloads = 1;
        in.extra_sei.payloads = &user_data;
    }
    self->sink = input->sink;
    self->context = input->context;
    int bytes = x264_encoder_encode(self->encoder, &nal, &nal_count, &in, &out);
    self->sink = NULL;
    self->context = NULL;
    if (bytes <= 0)
        return bytes < 0 ? -1 : 0;
    output->pts = out.i_pts;
    output->dts = out.i_dts;
    output->key_frame = out.b_keyframe;
    return 1;
}

int32_t glassline_x264_encode_delayed(glassline_x264 *self, const glassline_x264_input *input,
                                      glassline_x264_unit_sink sink, const void *context, glassline_x264_output *output)
{
    x264_picture_t in, out;
    x264_nal_t *nal = NULL;
    int nal_count = 0;
    if (input)
        fill_picture(&in, input);
    int bytes = x264_encoder_encode(self->encoder, &nal, &nal_count, input ? &in : NULL, &out);
    if (bytes <= 0 || nal_count <= 0)
        return bytes < 0 ? -1 : 0;
    /* The payloads of all NAL units stand one after the other (x264.h, x264_nal_t). */
    size_t head = 0;
    for (int i = 0; i < nal_count && (nal[i].i_type < NAL_SLICE || nal[i].i_type > NAL_SLICE_IDR); i++)
        head += (size_t)nal[i].i_payload;
    sink(context, nal[0].p_payload, (size_t)bytes, head);
    output->pts = out.i_pts;
    output->dts = out.i_dts;
    output->key_frame = out.b_keyframe;
    return 1;
}

int32_t glassline_x264_delayed(const glassline_x264 *self)
{
    return x264_encoder_delayed_frames(self->encoder);
}

int32_t glassline_x264_delayed_max(const glassline_x264 *self)
{
    return x264_encoder_maximum_delayed_frames(self->encoder);
}

static int32_t reconfigure(glassline_x264 *self, x264_param_t *param)
{
    int result = x264_encoder_reconfig(self->encoder, param);
    if (result == 0)
        self->param = *param;
    return result;
}

int32_t glassline_x264_set_rate(glassline_x264 *self, int32_t bitrate_kbit, int32_t vbv_kbit)
{
    x264_param_t param = self->param;
    param.rc.i_bitrate = bitrate_kbit;
    param.rc.i_vbv_max_bitrate = bitrate_kbit;
    param.rc.i_vbv_buffer_size = vbv_kbit;
    return reconfigure(self, &param);
}

int32_t glassline_x264_set_preset(glassline_x264 *self, const char *preset)
{
    x264_param_t param = self->param, wanted;
    if (x264_param_default_preset(&wanted, preset, "zerolatency") < 0)
        return -1;
    /* What costs time and may change between two pictures. Entropy coding, transforms, the deblocking filter and
     * everything else that parameter sets announce stay. */
    param.analyse.inter = wanted.analyse.inter;
    param.analyse.intra = wanted.analyse.intra;
    param.analyse.i_me_method = wanted.analyse.i_me_method;
    param.analyse.i_me_range = wanted.analyse.i_me_range;
    /* There is no way back from 0. */
    if (param.analyse.i_subpel_refine)
        param.analyse.i_subpel_refine = wanted.analyse.i_subpel_refine > 1 ? wanted.analyse.i_subpel_refine : 1;
    param.analyse.i_trellis = wanted.analyse.i_trellis;
    param.analyse.b_mixed_references = wanted.analyse.b_mixed_references;
    /* x264 keeps to the number that it was opened with. */
    if (self->references < 0)
        param.i_frame_reference = wanted.i_frame_reference;
    return reconfigure(self, &param);
}

int32_t glassline_x264_headers(const glassline_x264_settings *settings, uint8_t *out, size_t room, char *error,
                               size_t error_bytes)
{
    /* An encoder of its own: one with nalu_process cannot write headers before its first picture. */
    glassline_x264 self = {0};
    int32_t written = -1;
    atomic_flag_clear(&self.error_in_use);
    if (configure(&self.param, settings, &self) == 0)
        self.encoder = x264_encoder_open(&self.param);
    if (self.encoder) {
        x264_nal_t *nal = NULL;
        int nal_count = 0;
        int bytes = x264_encoder_headers(self.encoder, &nal, &nal_count);
        /* The payloads of all NAL units stand one after the other (x264.h, x264_nal_t). */
        if (bytes > 0 && nal_count > 0 && (size_t)bytes <= room) {
            memcpy(out, nal[0].p_payload, (size_t)bytes);
            written = bytes;
        }
        x264_encoder_close(self.encoder);
    }
    glassline_x264_error(&self, error, error_bytes);
    return written;
}

void glassline_x264_error(glassline_x264 *self, char *error, size_t error_bytes)
{
    if (error_bytes)
        error[0] = 0;
    if (atomic_flag_test_and_set(&self->error_in_use))
        return;
    snprintf(error, error_bytes, "%s", self->error);
    atomic_flag_clear(&self->error_in_use);
}

void glassline_x264_close(glassline_x264 *self)
{
    x264_encoder_close(self->encoder);
    free(self);
}
