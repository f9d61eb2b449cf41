#include "x264_shim.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <x264.h>

struct glassline_x264 {
    x264_t *encoder;
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

size_t glassline_x264_settings_bytes(void)
{
    return sizeof(glassline_x264_settings);
}

const char *glassline_x264_preset(size_t index)
{
    const size_t count = sizeof x264_preset_names / sizeof *x264_preset_names;
    return index < count ? x264_preset_names[index] : NULL;
}

static int configure(x264_param_t *param, const glassline_x264_settings *settings, glassline_x264 *self)
{
    if (x264_param_default_preset(param, settings->preset, "zerolatency") < 0) {
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
    param->b_sliced_threads = settings->sliced_threads;
    if (settings->sliced_threads && settings->threads != 1 && settings->slices) {
        /* With sliced threads x264 overrides i_slice_count by the threads; a slice's largest size it keeps. */
        int columns = (settings->width + 15) / 16, rows = (settings->height + 15) / 16;
        param->i_slice_max_mbs = columns * (rows > settings->slices ? rows / settings->slices : 1);
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
    param->b_repeat_headers = 1;
    param->b_annexb = 1;
    param->b_aud = 1;

    param->rc.i_rc_method = X264_RC_ABR;
    param->rc.i_bitrate = settings->bitrate_kbit;
    param->rc.i_vbv_max_bitrate = settings->bitrate_kbit;
    param->rc.i_vbv_buffer_size = settings->vbv_kbit;

    param->vui.i_colorprim = settings->primaries;
    param->vui.i_transfer = settings->transfer;
    param->vui.i_colmatrix = settings->matrix;
    param->vui.b_fullrange = settings->full_range;
    return 0;
}

glassline_x264 *glassline_x264_open(const glassline_x264_settings *settings, char *error, size_t error_bytes)
{
    glassline_x264 *self = calloc(1, sizeof *self);
    if (!self) {
        snprintf(error, error_bytes, "out of memory");
        return NULL;
    }
    atomic_flag_clear(&self->error_in_use);
    x264_param_t param;
    if (configure(&param, settings, self) == 0)
        self->encoder = x264_encoder_open(&param);
    if (self->encoder)
        return self;
    glassline_x264_error(self, error, error_bytes);
    free(self);
    return NULL;
}

int32_t glassline_x264_encode(glassline_x264 *self, const uint8_t *const planes[3], const int32_t strides[3],
                              int64_t pts, int32_t force_idr, const uint8_t **data, int64_t *unit_pts,
                              int64_t *unit_dts, int32_t *is_idr)
{
    x264_picture_t in, out;
    x264_nal_t *nal = NULL;
    int nal_count = 0;
    if (planes) {
        x264_picture_init(&in);
        in.img.i_csp = X264_CSP_I420;
        in.img.i_plane = 3;
        for (int i = 0; i < 3; i++) {
            /* x264 copies from here and writes nothing back. */
            in.img.plane[i] = (uint8_t *)planes[i];
            in.img.i_stride[i] = strides[i];
        }
        in.i_pts = pts;
        in.i_type = force_idr ? X264_TYPE_IDR : X264_TYPE_AUTO;
    }
    int bytes = x264_encoder_encode(self->encoder, &nal, &nal_count, planes ? &in : NULL, &out);
    if (bytes <= 0 || nal_count <= 0)
        return bytes < 0 ? bytes : 0;
    /* The payloads of all NAL units stand one after the other (x264.h, x264_nal_t). */
    *data = nal[0].p_payload;
    *unit_pts = out.i_pts;
    *unit_dts = out.i_dts;
    *is_idr = out.i_type == X264_TYPE_IDR;
    return bytes;
}

int32_t glassline_x264_headers(glassline_x264 *self, const uint8_t **data)
{
    x264_nal_t *nal = NULL;
    int nal_count = 0;
    int bytes = x264_encoder_headers(self->encoder, &nal, &nal_count);
    if (bytes <= 0 || nal_count <= 0)
        return -1;
    *data = nal[0].p_payload;
    return bytes;
}

int32_t glassline_x264_delayed(glassline_x264 *self)
{
    return x264_encoder_delayed_frames(self->encoder);
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
