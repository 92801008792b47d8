/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which vCPU has executed an instruction: see turns.h
 */

#include "replay/log-reader.h"
#include "replay/turns.h"
#include "replay/vcpu-count.h"
#include "util/search.h"

/* 1 GiB of turns */
#define MAX_TURNS   (1u << 26)

/**
 * struct turn
 * @begin: its first instruction; it ends where the next one begins
 */
struct turn {
    uint64_t begin;
    uint64_t vcpu;
};

struct turns {
    GArray *list;               /* not empty */
    uint64_t begin, end;
};

static void add_turn(struct turns *t, unsigned vcpu)
{
    const struct turn turn = { t->end, vcpu };
    struct turn *last = t->list->len ?
        &g_array_index(t->list, struct turn, t->list->len - 1) : NULL;

    /* One that executes nothing is an interrupt only. */
    if (last && last->begin == t->end) {
        last->vcpu = vcpu;
    } else if (!last || last->vcpu != vcpu) {
        g_array_append_val(t->list, turn);
    }
}

static bool damaged(GError **error)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "the log is damaged, or of a QEMU that this version of "
                "backtrail does not know");
    return false;
}

static bool read_log(struct turns *t, FILE *file,
                     const struct log_start *start, GError **error)
{
    struct log_reader r;
    struct log_event e = { 0 };

    log_reader_begin(&r, file, start);
    t->begin = t->end = start->icount;
    add_turn(t, start->vcpu);
    /* No device of a recording takes sound. */
    while (log_reader_next(&r, &e) && e.type != LOG_AUDIO_IN) {
        if (e.type == LOG_INSTRUCTION) {
            t->end += e.number;
        } else if (e.type == LOG_CPU) {
            if (e.number >= VCPU_COUNT_MAX || t->list->len >= MAX_TURNS) {
                return damaged(error);
            }
            add_turn(t, e.number);
        }
    }
    return (!r.bad && e.type != LOG_AUDIO_IN) || damaged(error);
}

struct turns *turns_load(const char *path, const struct log_start *start,
                         GError **error)
{
    FILE *file = fopen(path, "re");
    struct turns *t;
    bool ok;

    if (!file) {
        agent_error_errno(error, path);
        return NULL;
    }
    t = g_new0(struct turns, 1);
    t->list = g_array_new(FALSE, FALSE, sizeof(struct turn));
    ok = read_log(t, file, start, error);
    fclose(file);
    if (!ok) {
        turns_free(t);
        return NULL;
    }
    return t;
}

void turns_free(struct turns *t)
{
    if (t) {
        g_array_unref(t->list);
        g_free(t);
    }
}

/* The turn of an instruction, counted from 1 on; the first one if it is before
 * that */
static unsigned turn_of(const struct turns *t, uint64_t instruction)
{
    return BTRAIL_UP_TO(t->list->data, t->list->len, struct turn, begin,
                        MAX(instruction, t->begin));
}

unsigned turns_vcpu(const struct turns *t, uint64_t instruction)
{
    return t ? g_array_index(t->list, struct turn,
                             turn_of(t, instruction) - 1).vcpu : 0;
}

bool turns_last(const struct turns *t, unsigned vcpu, uint64_t before,
                uint64_t *instruction)
{
    uint64_t end;

    if (!t) {
        *instruction = before - 1;
        return before;
    }
    end = MIN(before, t->end);
    for (unsigned n = end > t->begin ? turn_of(t, end - 1) : 0; n; n--) {
        const struct turn *turn = &g_array_index(t->list, struct turn, n - 1);

        if (turn->vcpu == vcpu) {
            *instruction = end - 1;
            return true;
        }
        end = turn->begin;
    }
    return false;
}

uint64_t turns_next(const struct turns *t, unsigned vcpu, uint64_t from)
{
    if (!t) {
        return from;
    }
    for (unsigned n = turn_of(t, from) - 1; n < t->list->len; n++) {
        const struct turn *turn = &g_array_index(t->list, struct turn, n);

        if (turn->vcpu == vcpu) {
            from = MAX(from, turn->begin);
            return from < t->end ? from : UINT64_MAX;
        }
    }
    return UINT64_MAX;
}
