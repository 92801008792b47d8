/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The symbols that a scanner has sent: see sent-symbols.h
 */

#include <string.h>

#include "guest-linux/loaded.h"
#include "guest-linux/own-symbols.h"
#include "guest-linux/sent-symbols.h"
#include "guest-linux/syscalls.h"
#include "util/clock.h"

/* How often symbols are read that change meanwhile */
#define CHECK_TRIES 3

struct sent_symbols {
    const struct scan_output *out;
    struct kernel_numbers *numbers;
    const void *owner;
    GBytes *own;                /* This and the others are packed, or NULL. */
    uint16_t own_of;            /* the kernel that has @own */
    GBytes *syscalls;
    GBytes *loaded;             /* symbols of what comes and goes */
    uint64_t held;
    uint64_t loaded_hash;       /* linux_loaded_hash() of them; 0 if they do
                                   not hold */
};

struct sent_symbols *sent_symbols_new(const struct scan_output *out,
                                      struct kernel_numbers *numbers,
                                      const void *owner)
{
    struct sent_symbols *sent = g_new0(struct sent_symbols, 1);

    sent->out = out;
    sent->numbers = numbers;
    sent->owner = owner;
    return sent;
}

void sent_symbols_free(struct sent_symbols *sent)
{
    scan_output_drop(sent->out, &sent->own);
    scan_output_drop(sent->out, &sent->syscalls);
    scan_output_drop(sent->out, &sent->loaded);
    g_free(sent);
}

static void add_symbols(void *opaque, const char *text, size_t size)
{
    btrail_sideband_add(opaque, text, size);
}

static void send_text(struct sent_symbols *sent,
                      const struct btrail_sideband_info *with, uint16_t kind,
                      GString *text, GBytes **kept)
{
    struct btrail_sideband_info info = *with;

    info.kind = kind;
    info.size = (uint32_t)text->len;
    scan_output_keep(sent->out, kept,
                     scan_output_send(sent->out, &info, text->str));
    g_string_free(text, TRUE);
}

/* Are these, packed, the ones that were sent?  Their times may differ. */
static bool are_sent(const struct sent_symbols *sent,
                     const struct linux_kernel *k,
                     const struct btrail_buf *packed)
{
    size_t size;
    const uint8_t *own;

    if (sent->own_of != k->number || !sent->own) {
        return false;
    }
    own = g_bytes_get_data(sent->own, &size);
    return size == packed->len &&
           !memcmp(own + BTRAIL_SIDEBAND_HEADER_SIZE,
                   packed->data + BTRAIL_SIDEBAND_HEADER_SIZE,
                   size - BTRAIL_SIDEBAND_HEADER_SIZE);
}

void sent_symbols_send_own(struct sent_symbols *sent, struct linux_kernel *k)
{
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_SYMBOLS, .kernel = k->number,
        .time = clock_ns(),
    };
    struct btrail_sideband_parts *parts = btrail_sideband_begin(&info);
    struct btrail_buf own;

    linux_kernel_begin(k);
    linux_own_symbols(k, add_symbols, parts);
    btrail_sideband_end(parts, &own);
    if (are_sent(sent, k, &own)) {
        btrail_buf_free(&own);
        return;
    }
    sent->own_of = k->number;
    scan_output_keep(sent->out, &sent->own,
                     scan_output_send_packed(sent->out, &info, &own));
    send_text(sent, &info, BTRAIL_SIDEBAND_SYSCALLS, linux_syscalls(k),
              &sent->syscalls);
}

/* Reads what is loaded; returns 0 if it changes at the moment. */
static uint64_t loaded_hash(struct linux_kernel *k)
{
    linux_kernel_begin(k);
    return linux_loaded_hash(k);
}

uint64_t sent_symbols_held(const struct sent_symbols *sent)
{
    return sent->held;
}

void sent_symbols_send_held(struct sent_symbols *sent,
                            const struct linux_kernel *k)
{
    const struct btrail_sideband_info info = {
        .kind = BTRAIL_SIDEBAND_HELD, .kernel = k->number, .time = sent->held,
    };

    /* Another scanner that has found the kernel since says it then. */
    if (sent->held && (!sent->owner ||
                       kernel_numbers_is_of(sent->numbers, k->number,
                                            sent->owner))) {
        g_bytes_unref(scan_output_send(sent->out, &info, NULL));
    }
    sent->held = 0;
    sent->loaded_hash = 0;
}

void sent_symbols_check(struct sent_symbols *sent, struct linux_kernel *k)
{
    uint64_t begin = clock_ns();
    uint64_t hash = loaded_hash(k);

    if (hash && hash == sent->loaded_hash) {
        sent->held = begin;
        return;
    }
    for (unsigned i = 0; i < CHECK_TRIES && hash; i++) {
        const struct btrail_sideband_info info = {
            .kernel = k->number, .time = clock_ns(),
        };
        GString *text = linux_loaded_symbols(k);
        uint64_t again;

        sent_symbols_send_held(sent, k);
        begin = clock_ns();
        again = loaded_hash(k);
        if (text && again == hash) {
            send_text(sent, &info, BTRAIL_SIDEBAND_SYMBOLS, text,
                      &sent->loaded);
            sent->loaded_hash = hash;
            sent->held = begin;
            return;
        }
        if (text) {
            g_string_free(text, TRUE);
        }
        hash = again;
    }
}

void sent_symbols_forget(struct sent_symbols *sent)
{
    scan_output_drop(sent->out, &sent->loaded);
}

void sent_symbols_resend(struct sent_symbols *sent,
                         const struct linux_kernel *k)
{
    if (sent->own_of == k->number) {
        scan_output_resend(sent->out, BTRAIL_SIDEBAND_SYMBOLS, sent->own_of,
                           sent->own);
        scan_output_resend(sent->out, BTRAIL_SIDEBAND_SYSCALLS, sent->own_of,
                           sent->syscalls);
    }
    /* What is loaded is forgotten with its kernel. */
    scan_output_resend(sent->out, BTRAIL_SIDEBAND_SYMBOLS, k->number,
                       sent->loaded);
}
