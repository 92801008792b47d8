/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libipt's decoder of blocks, which is its fastest
 */

#include <string.h>

#include <intel-pt.h>

#include "pt.h"

struct code {
    pt_bench_code_fn *read;
    void *opaque;
    struct pt_block_decoder *decoder;
};

static int read_code(uint8_t *buf, size_t n, const struct pt_asid *asid,
                     uint64_t ip, void *context)
{
    struct code *c = context;
    uint64_t offset = 0;
    int got;

    pt_blk_get_offset(c->decoder, &offset);
    got = c->read(c->opaque, asid->cr3 == pt_asid_no_cr3 ? 0 : asid->cr3, ip,
                  offset, buf, n);
    return got ? got : -pte_nomap;
}

uint64_t pt_bench_libipt(const uint8_t *p, size_t n, pt_bench_code_fn *code,
                         void *opaque, uint64_t *errors)
{
    struct code c = { code, opaque, NULL };
    struct pt_config config;
    uint64_t blocks = 0;
    int status;

    pt_config_init(&config);
    config.begin = (uint8_t *)p;
    config.end = (uint8_t *)p + n;
    config.flags.variant.block.end_on_call = 1;
    config.flags.variant.block.end_on_jump = 1;
    c.decoder = pt_blk_alloc_decoder(&config);
    pt_image_set_callback(pt_blk_get_image(c.decoder), read_code, &c);
    *errors = 0;
    while ((status = pt_blk_sync_forward(c.decoder)) >= 0) {
        while (status >= 0) {
            struct pt_block block = { 0 };
            struct pt_event event;

            while (status >= 0 && status & pts_event_pending) {
                status = pt_blk_event(c.decoder, &event, sizeof(event));
            }
            if (status < 0 || status & pts_eos) {
                break;
            }
            status = pt_blk_next(c.decoder, &block, sizeof(block));
            blocks += block.ninsn != 0;
        }
        if (status >= 0 || status == -pte_eos) {
            break;
        }
        ++*errors;
    }
    pt_blk_free_decoder(c.decoder);
    return blocks;
}
