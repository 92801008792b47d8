/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does libipt decode from the encoder's stream what the truth has?
 *
 * judge-libipt trace=FILE [NAME=VALUE]...; for the names see encode.h.  It
 * shares nothing with the encoder but the truth, its code, and the image of the
 * host.  The last line says, in words and numbers, what came of it.
 */

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <intel-pt.h>

#include "arguments.h"
#include "host.h"
#include "matcher.h"

struct judge {
    struct truth *t;
    struct encoded e;
    struct matcher m;
    uint64_t shift;
    uint64_t ip, next;          /* of the last instruction, and after it */
    bool have;                  /* there is one */
    bool branches;              /* it always does */
    bool host;                  /* the host runs */
    bool exit_known;
    uint64_t exit_ip;
    uint64_t labels;            /* that were not those of the truth */
    uint64_t errors[64];
    uint64_t shown;
};

static int read_code(uint8_t *buf, size_t n, const struct pt_asid *asid,
                     uint64_t ip, void *context)
{
    struct judge *j = context;
    uint64_t at = j->m.at, label;
    size_t got;

    if (asid->cr3 == HOST_CR3) {
        got = host_code(ip, buf, n);
        return got ? (int)got : -pte_nomap;
    }
    /* Has the last instruction branched?  That is known when this one is. */
    at += j->have && (j->branches || ip != j->next);
    /* Or, with a VM entry, is it that of an interrupt? */
    for (unsigned i = 0; i < 2; i++) {
        label = truth_label(j->t, MIN(at + i, j->t->n - 1));
        got = truth_code(j->t, MIN(at + i, j->t->n - 1), label, ip - j->shift,
                         buf, n);
        if (got) {
            j->labels += asid->cr3 != pt_asid_no_cr3 &&
                         asid->cr3 != truth_pip(label);
            return got;
        }
    }
    return -pte_nomap;
}

static bool is_host(const struct judge *j, uint64_t ip)
{
    return ip - HOST_BASE < HOST_SIZE;
}

static void record(struct judge *j, uint64_t from, uint64_t to)
{
    matcher_record(&j->m, from - j->shift, to - j->shift);
}

/* The guest goes on at @ip, after an exit. */
static void enter(struct judge *j, uint64_t ip)
{
    uint64_t label = truth_label(j->t, MIN(j->m.at, j->t->n - 1));
    struct truth_insn i;

    j->host = false;
    if (!j->exit_known || ip == j->exit_ip) {
        return;
    }
    for (unsigned bits = 64; bits >= 16; bits /= 2) {
        i = truth_insn(j->t, j->m.at, label, bits, j->exit_ip);
        if (i.kind == INSN_EXITS) {
            if (ip != j->exit_ip + i.length) {
                record(j, j->exit_ip + i.length, ip);
            }
            return;
        }
    }
    record(j, j->exit_ip, ip);
}

static void arrive(struct judge *j, uint64_t ip)
{
    if (is_host(j, ip)) {
        /* If no exit was seen, one has begun to read in the host. */
        j->exit_known = j->exit_known && j->host;
        j->host = true;
    } else if (j->host) {
        enter(j, ip);
    } else if (j->have && (j->branches || ip != j->next)) {
        record(j, j->ip, ip);
    }
    j->have = false;
}

/* Nobody knows what was before @ip. */
static void restart(struct judge *j, uint64_t ip)
{
    j->have = false;
    j->host = is_host(j, ip);
    j->exit_known = false;
}

static void event(struct judge *j, const struct pt_event *ev)
{
    switch (ev->type) {
    case ptev_async_branch:
        arrive(j, ev->variant.async_branch.from);
        if (j->host) {
            break;
        }
        if (is_host(j, ev->variant.async_branch.to)) {
            j->host = true;
            j->exit_known = true;
            j->exit_ip = ev->variant.async_branch.from;
        } else {
            record(j, ev->variant.async_branch.from,
                   ev->variant.async_branch.to);
        }
        break;
    case ptev_overflow:
        matcher_at_place(&j->m, ENCODE_OVF, 0);
        restart(j, ev->variant.overflow.ip);
        break;
    case ptev_async_disabled:
        arrive(j, ev->variant.async_disabled.at);
        if (!j->host && !ev->ip_suppressed) {
            record(j, ev->variant.async_disabled.at,
                   ev->variant.async_disabled.ip);
        }
        break;
    case ptev_enabled:
        matcher_at_place(&j->m, ENCODE_ON, 0);
        j->have = false;
        break;
    case ptev_disabled:
        if (j->have && !j->host && !ev->ip_suppressed) {
            record(j, j->ip, ev->variant.disabled.ip);
        }
        j->have = false;
        break;
    default:
        break;
    }
}

/* Goes on to the next error; returns it. */
static int decode(struct judge *j, struct pt_insn_decoder *d, int status)
{
    for (;;) {
        struct pt_insn in;
        struct pt_event ev;

        while (status & pts_event_pending) {
            status = pt_insn_event(d, &ev, sizeof(ev));
            if (status < 0) {
                return status;
            }
            if (!ev.status_update) {
                event(j, &ev);
            }
        }
        if (status & pts_eos) {
            return -pte_eos;
        }
        status = pt_insn_next(d, &in, sizeof(in));
        if (in.iclass == ptic_error) {
            if (status >= 0) {
                continue;
            }
            return status;
        }
        arrive(j, in.ip);
        j->have = !j->host;
        j->ip = in.ip;
        j->next = in.ip + in.size;
        if (in.mode == ptem_32bit || in.mode == ptem_16bit) {
            j->next = (uint32_t)j->next;
        }
        j->branches = in.iclass != ptic_other &&
                      in.iclass != ptic_cond_jump &&
                      in.iclass != ptic_ptwrite;
        if (status < 0) {
            return status;
        }
    }
}

static void show(struct judge *j, struct pt_insn_decoder *d, int error)
{
    uint64_t offset = 0;

    j->errors[MIN(-error, 63)]++;
    if (j->shown < j->m.shown) {
        j->shown++;
        pt_insn_get_offset(d, &offset);
        fprintf(stderr, "at byte %" PRIu64 ", record %" PRIu64 ", after %"
                PRIx64 ": %s\n", offset, j->m.at, j->ip,
                pt_errstr(pt_errcode(error)));
    }
}

/* Bytes that have no hole */
static void decode_part(struct judge *j, const struct arguments *a,
                        uint64_t begin, uint64_t end)
{
    struct pt_insn_decoder *d;
    struct pt_config c;
    int status;

    pt_config_init(&c);
    c.begin = j->e.bytes->data + begin;
    c.end = j->e.bytes->data + end;
    c.mtc_freq = MAX(a->o.mtc, 0);
    c.cpuid_0x15_eax = 1;
    c.cpuid_0x15_ebx = 125;
    c.nom_freq = 30;
    d = pt_insn_alloc_decoder(&c);
    pt_image_set_callback(pt_insn_get_image(d), read_code, j);
    while ((status = pt_insn_sync_forward(d)) >= 0) {
        uint64_t offset;

        pt_insn_get_sync_offset(d, &offset);
        matcher_at_place(&j->m, ENCODE_PSB, begin + offset);
        restart(j, 0);
        status = decode(j, d, status);
        if (status != -pte_eos) {
            show(j, d, status);
        }
    }
    pt_insn_free_decoder(d);
}

static void decode_all(struct judge *j, const struct arguments *a)
{
    uint64_t begin = 0;

    for (unsigned i = 0; i < j->e.places->len; i++) {
        const struct encode_place *p =
            &g_array_index(j->e.places, struct encode_place, i);

        if (p->kind == ENCODE_CUT) {
            decode_part(j, a, begin, p->offset);
            begin = p->offset;
        }
    }
    decode_part(j, a, begin, j->e.bytes->len);
}

int main(int argc, char **argv)
{
    struct truth t;
    struct judge j = { .t = &t };
    struct arguments a;
    uint64_t errors = 0;

    arguments_encode(&a, argc, argv, &t, &j.e);
    matcher_init(&j.m, &t, &j.e);
    j.shift = a.o.shift;
    decode_all(&j, &a);
    for (unsigned i = 0; i < G_N_ELEMENTS(j.errors); i++) {
        if (j.errors[i]) {
            fprintf(stderr, "%" PRIu64 " times: %s\n", j.errors[i],
                    pt_errstr(i));
            errors += j.errors[i];
        }
    }
    matcher_print(&j.m);
    printf(" errors %" PRIu64 " labels %" PRIu64 "\n", errors, j.labels);
    return 0;
}
