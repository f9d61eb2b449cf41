#include "dav1d_shim.h"

#include <stdlib.h>
#include <string.h>

#include <dav1d/dav1d.h>

struct glassline_dav1d {
    Dav1dContext *context;
    /* The first picture of the last unit, or zeros. */
    Dav1dPicture shown;
};

size_t glassline_dav1d_picture_bytes(void)
{
    return sizeof(glassline_dav1d_picture);
}

glassline_dav1d *glassline_dav1d_new(int32_t threads, uint32_t max_pixels, int32_t *error)
{
    glassline_dav1d *self = calloc(1, sizeof *self);
    *error = DAV1D_ERR(ENOMEM);
    if (!self)
        return NULL;
    Dav1dSettings settings;
    dav1d_default_settings(&settings);
    settings.n_threads = threads;
    /* All threads work on one picture, which comes out of the call that takes its unit in. */
    settings.max_frame_delay = 1;
    /* Decoders that do apply grain would show other samples than the encoder knows. */
    settings.apply_grain = 0;
    settings.all_layers = 0;
    settings.frame_size_limit = max_pixels;
    settings.strict_std_compliance = 0;
    settings.logger.cookie = NULL;
    settings.logger.callback = NULL;
    *error = dav1d_open(&self->context, &settings);
    if (!*error)
        return self;
    free(self);
    return NULL;
}

/* Takes pictures out until there is none; keeps the first. A negative errno, or how many there were. */
static int32_t take_pictures(glassline_dav1d *self, int32_t count)
{
    for (;;) {
        Dav1dPicture picture;
        memset(&picture, 0, sizeof picture);
        int result = dav1d_get_picture(self->context, &picture);
        if (result == DAV1D_ERR(EAGAIN))
            return count;
        if (result < 0)
            return result;
        if (count++ == 0)
            self->shown = picture;
        else
            dav1d_picture_unref(&picture);
    }
}

static void describe(const Dav1dPicture *from, glassline_dav1d_picture *to)
{
    memset(to, 0, sizeof *to);
    for (int plane = 0; plane < 3; plane++) {
        to->planes[plane] = from->data[plane];
        to->strides[plane] = from->stride[plane > 0];
    }
    to->width = from->p.w;
    to->height = from->p.h;
    to->bits = from->p.bpc;
    to->is_420 = from->p.layout == DAV1D_PIXEL_LAYOUT_I420;
    to->primaries = (int32_t)from->seq_hdr->pri;
    to->transfer = (int32_t)from->seq_hdr->trc;
    to->matrix = (int32_t)from->seq_hdr->mtrx;
    to->full_range = from->seq_hdr->color_range;
}

int32_t glassline_dav1d_decode(glassline_dav1d *self, const uint8_t *unit, size_t bytes,
                               glassline_dav1d_picture *picture)
{
    dav1d_picture_unref(&self->shown);
    memset(&self->shown, 0, sizeof self->shown);
    /* Tiles of a frame that the unit does not complete are kept by dav1d: it gets bytes of its own. */
    Dav1dData data;
    memset(&data, 0, sizeof data);
    uint8_t *copy = dav1d_data_create(&data, bytes);
    if (!copy)
        return DAV1D_ERR(ENOMEM);
    memcpy(copy, unit, bytes);
    int32_t count = 0;
    while (data.sz > 0) {
        int result = dav1d_send_data(self->context, &data);
        if (result < 0 && result != DAV1D_ERR(EAGAIN)) {
            dav1d_data_unref(&data);
            return result;
        }
        int32_t before = count;
        count = take_pictures(self, count);
        if (count < 0 || (result && count == before)) {
            /* It neither takes the unit nor gives a picture: that would never end. */
            dav1d_data_unref(&data);
            return count < 0 ? count : DAV1D_ERR(EINVAL);
        }
    }
    if (count > 0)
        describe(&self->shown, picture);
    return count;
}

void glassline_dav1d_free(glassline_dav1d *self)
{
    dav1d_picture_unref(&self->shown);
    dav1d_close(&self->context);
    free(self);
}
