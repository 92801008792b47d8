/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the encoder and the judges are told: see arguments.h
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"

static const char *const rets[] = { "tip", "all", "compressed", NULL };
static const char *const selects[] = { "all", "kernel", "user", NULL };

static G_GNUC_NORETURN void usage(const char *wrong)
{
    fprintf(stderr, "%s: not NAME=VALUE, or a wrong VALUE; see encode.h\n",
            wrong);
    exit(2);
}

static uint64_t number(const char *argument, const char *value)
{
    char *end;
    uint64_t n;

    errno = 0;
    n = g_ascii_strtoull(value, &end, 0);
    if (errno || !*value || *end) {
        usage(argument);
    }
    return n;
}

static unsigned word(const char *argument, const char *value,
                     const char *const *words)
{
    for (unsigned i = 0; words[i]; i++) {
        if (!strcmp(words[i], value)) {
            return i;
        }
    }
    usage(argument);
}

static bool set(struct arguments *a, const char *argument, const char *name,
                const char *value)
{
    struct encode_options *o = &a->o;
    const struct {
        const char *name;
        unsigned *to;
    } numbers[] = {
        { "vcpu", &a->vcpu }, { "seed", &o->seed }, { "psb", &o->psb },
        { "tnt", &o->tnt }, { "exits", &o->exits },
        { "overflows", &o->overflows }, { "noise", &o->noise },
        { "noise-kinds", &o->noise_kinds }, { "cuts", &o->cuts },
    };
    const struct {
        const char *name;
        uint64_t *to;
    } wide[] = {
        { "first", &a->first }, { "records", &a->records },
        { "root", &o->root }, { "low", &o->low }, { "high", &o->high },
        { "shift", &o->shift }, { "tail", &a->tail },
        { "host-tsc", &o->host_tsc }, { "narrow", &o->narrow },
    };
    const struct {
        const char *name;
        bool *to;
    } flags[] = {
        { "cyc", &o->cyc }, { "begin", &o->begin },
        { "deferred", &o->deferred }, { "any-form", &o->any_form },
        { "natural", &o->natural }, { "inject", &o->inject },
        { "sleeps", &o->sleeps }, { "int-fup", &o->int_fup },
        { "part", &o->part },
    };
    const struct {
        const char *name;
        const char **to;
    } names[] = {
        { "trace", &a->trace }, { "stream", &a->stream },
        { "known", &a->known }, { "image", &a->image },
        { "given", &a->given },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(numbers); i++) {
        if (!strcmp(numbers[i].name, name)) {
            *numbers[i].to = MIN(number(argument, value), INT32_MAX);
            return true;
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(wide); i++) {
        if (!strcmp(wide[i].name, name)) {
            *wide[i].to = number(argument, value);
            return true;
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(flags); i++) {
        if (!strcmp(flags[i].name, name)) {
            *flags[i].to = number(argument, value);
            return true;
        }
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(names); i++) {
        if (!strcmp(names[i].name, name)) {
            *names[i].to = value;
            return true;
        }
    }
    return false;
}

static void get(struct arguments *a, int argc, char **argv)
{
    *a = (struct arguments) {
        .records = UINT64_MAX, .tail = UINT64_MAX,
        .o = { .seed = 1, .psb = 2048, .tnt = 47, .mtc = -1,
               .noise_kinds = ENCODE_NOISE_ALL },
    };
    for (int i = 1; i < argc; i++) {
        g_auto(GStrv) part = g_strsplit(argv[i], "=", 2);
        const char *value = part[0] ? part[1] : NULL;

        if (!value) {
            usage(argv[i]);
        }
        value = strchr(argv[i], '=') + 1;
        if (!strcmp(part[0], "ret")) {
            a->o.ret = word(argv[i], value, rets);
        } else if (!strcmp(part[0], "select")) {
            a->o.select = word(argv[i], value, selects);
        } else if (!strcmp(part[0], "mtc")) {
            a->o.mtc = number(argv[i], value);
        } else if (!set(a, argv[i], part[0], value)) {
            usage(argv[i]);
        }
    }
    if (!a->trace || a->o.psb < 256 || !a->o.tnt || a->o.tnt > 47 ||
        a->o.mtc > 15) {
        usage("trace, psb, tnt, mtc");
    }
}

void arguments_encode(struct arguments *a, int argc, char **argv,
                      struct truth *t, struct encoded *e)
{
    get(a, argc, argv);
    *t = (struct truth) { 0 };
    truth_load(t, a->trace, a->vcpu, a->first, a->records);
    if (!t->n) {
        fprintf(stderr, "%s: no records\n", a->trace);
        exit(1);
    }
    encode(t, &a->o, e);
}
