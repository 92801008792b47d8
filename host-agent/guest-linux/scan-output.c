/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a scanner finds: see scan-output.h
 */

#include "guest-linux/scan-output.h"

static struct scanner_piece piece_of(const struct scan_output *out,
                                     const struct btrail_sideband_info *info,
                                     const struct btrail_buf *packed)
{
    return (struct scanner_piece) {
        .kind = info->kind, .kernel = info->kernel, .nested = out->nested,
        .packed = packed->data, .packed_size = packed->len,
    };
}

GBytes *scan_output_send_packed(const struct scan_output *out,
                                const struct btrail_sideband_info *info,
                                struct btrail_buf *packed)
{
    struct scanner_piece piece = piece_of(out, info, packed);

    out->ops->piece(out->opaque, &piece);
    return g_bytes_new_take(g_realloc(packed->data, packed->len), packed->len);
}

GBytes *scan_output_send(const struct scan_output *out,
                         const struct btrail_sideband_info *info,
                         const void *data)
{
    struct btrail_buf packed = { 0 };

    btrail_sideband_pack(info, data, &packed);
    return scan_output_send_packed(out, info, &packed);
}

void scan_output_send_snapshot(const struct scan_output *out,
                               const struct btrail_sideband_info *info,
                               const void *data,
                               const struct btrail_snapshot *snapshot,
                               const struct guest_memory *memory,
                               unsigned levels)
{
    struct btrail_buf packed = { 0 };
    struct scanner_piece piece;

    btrail_sideband_pack(info, data, &packed);
    piece = piece_of(out, info, &packed);
    piece.snapshot = snapshot;
    piece.memory = memory;
    piece.levels = levels;
    out->ops->piece(out->opaque, &piece);
    btrail_buf_free(&packed);
}

void scan_output_drop(const struct scan_output *out, GBytes **sent)
{
    if (*sent) {
        btrail_budget_drop(out->kept, g_bytes_get_size(*sent));
        g_clear_pointer(sent, g_bytes_unref);
    }
}

void scan_output_keep(const struct scan_output *out, GBytes **sent,
                      GBytes *packed)
{
    scan_output_drop(out, sent);
    if (btrail_budget_keep(out->kept, g_bytes_get_size(packed))) {
        *sent = packed;
    } else {
        g_bytes_unref(packed);
    }
}

void scan_output_resend(const struct scan_output *out, uint16_t kind,
                        uint16_t kernel, GBytes *sent)
{
    struct scanner_piece piece = {
        .kind = kind, .kernel = kernel, .nested = out->nested, .again = true,
    };

    if (sent) {
        piece.packed = g_bytes_get_data(sent, &piece.packed_size);
        out->ops->piece(out->opaque, &piece);
    }
}
