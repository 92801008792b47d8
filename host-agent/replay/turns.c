/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which vCPU has executed an instruction: see turns.h
 *
 * The events of the log are those of replay/replay-internal.h of QEMU, and all
 * numbers are big-endian.
 */

#include <stdio.h>

#include "replay/turns.h"
#include "replay/vcpu-count.h"
#include "util/search.h"

#define VERSION     0xe0200du
/* 1 GiB of turns */
#define MAX_TURNS   (1u << 26)

enum event {
    INSTRUCTION = 0,
    INTERRUPT = 1,
    EXCEPTION = 2,
    ASYNC_BH = 3,
    ASYNC_BH_ONESHOT = 4,
    ASYNC_INPUT = 5,
    ASYNC_INPUT_SYNC = 6,
    ASYNC_CHAR_READ = 7,
    ASYNC_BLOCK = 8,
    ASYNC_NET = 9,
    SHUTDOWN = 10,              /* one for each cause */
    SHUTDOWN_LAST = 21,
    CHAR_WRITE = 22,
    CHAR_READ_ALL = 23,
    CHAR_READ_ALL_ERROR = 24,
    AUDIO_OUT = 25,
    AUDIO_IN = 26,
    RANDOM = 27,
    CLOCK = 28,
    CLOCK_LAST = 29,
    CHECKPOINT = 30,
    CHECKPOINT_LAST = 38,
    CPU = 39,
    END = 40,
};

enum input {
    KEY, BUTTON, RELATIVE, ABSOLUTE, TOUCH,
};

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
    uint64_t end;
};

/* The log, as far as it is read */
struct log {
    FILE *file;
    bool cut;                   /* it ends within an event */
};

/* 0 where it is cut off */
static uint64_t take(struct log *l, unsigned bytes)
{
    uint64_t n = 0;

    while (bytes--) {
        int c = getc_unlocked(l->file);

        if (c == EOF) {
            l->cut = true;
            return 0;
        }
        n = n << 8 | c;
    }
    return n;
}

static void skip(struct log *l, uint64_t bytes)
{
    while (bytes-- && !l->cut) {
        take(l, 1);
    }
}

static void skip_array(struct log *l)
{
    skip(l, take(l, 4));
}

static bool skip_input(struct log *l)
{
    switch (take(l, 4)) {
    case KEY:
        /* A number, or one of QEMU's names */
        skip(l, take(l, 4) ? 5 : 9);
        return true;
    case BUTTON:
        skip(l, 5);
        return true;
    case RELATIVE:
    case ABSOLUTE:
        skip(l, 12);
        return true;
    case TOUCH:
        skip(l, 32);
        return true;
    default:
        return false;
    }
}

/* False if there is no such event. */
static bool skip_event(struct log *l, unsigned event)
{
    switch (event) {
    case INTERRUPT:
    case EXCEPTION:
    case ASYNC_INPUT_SYNC:
    case SHUTDOWN ... SHUTDOWN_LAST:
    case CHECKPOINT ... CHECKPOINT_LAST:
        return true;
    case CHAR_READ_ALL_ERROR:
        skip(l, 4);
        return true;
    case ASYNC_BH:
    case ASYNC_BH_ONESHOT:
    case ASYNC_BLOCK:
    case CHAR_WRITE:
    case AUDIO_OUT:
    case CLOCK ... CLOCK_LAST:
        skip(l, 8);
        return true;
    case ASYNC_INPUT:
        return skip_input(l);
    case ASYNC_CHAR_READ:
        skip(l, 1);
        skip_array(l);
        return true;
    case ASYNC_NET:
        skip(l, 5);
        skip_array(l);
        return true;
    case CHAR_READ_ALL:
        skip_array(l);
        return true;
    case RANDOM:
        skip(l, 4);
        skip_array(l);
        return true;
    default:
        return false;
    }
}

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
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "the log is damaged, or of a QEMU that this version of "
                "backtrail does not know");
    return false;
}

static bool read_log(struct turns *t, struct log *l, GError **error)
{
    uint64_t n;
    int event;

    if (take(l, 4) != VERSION) {
        return damaged(error);
    }
    skip(l, 8);
    add_turn(t, 0);
    while (!l->cut && (event = getc_unlocked(l->file)) != EOF &&
           event != END) {
        if (event == INSTRUCTION) {
            t->end += take(l, 4);
        } else if (event == CPU) {
            n = take(l, 4);
            if (n >= VCPU_COUNT_MAX || t->list->len >= MAX_TURNS) {
                return damaged(error);
            }
            add_turn(t, n);
        } else if (!skip_event(l, event)) {
            return damaged(error);
        }
    }
    return true;
}

struct turns *turns_load(const char *path, GError **error)
{
    struct turns *t;
    struct log log = { .file = fopen(path, "re") };
    bool ok;

    if (!log.file) {
        btrail_agent_error_errno(error, path);
        return NULL;
    }
    t = g_new0(struct turns, 1);
    t->list = g_array_new(FALSE, FALSE, sizeof(struct turn));
    ok = read_log(t, &log, error);
    fclose(log.file);
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

/* The turn of an instruction, counted from 1 on */
static unsigned turn_of(const struct turns *t, uint64_t instruction)
{
    return BTRAIL_UP_TO(t->list->data, t->list->len, struct turn, begin,
                        instruction);
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
    for (unsigned n = end ? turn_of(t, end - 1) : 0; n; n--) {
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
