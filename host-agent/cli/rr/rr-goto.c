/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr goto: see rr.h
 */

#include <inttypes.h>
#include <string.h>

#include "cli/rr/rr.h"
#include "util/json.h"

/**
 * struct arrival - where it is
 * @vcpu:      that runs next
 * @several:   there are others
 * @registers: QEMU's text, of @vcpu
 * @rip:       the next instruction
 * @name:      of it, or NULL
 * @task:      that runs, or NULL
 */
struct arrival {
    uint64_t icount;
    bool exact;
    unsigned vcpu;
    bool several;
    char *registers;
    uint64_t rip;
    char *name;
    char *task;
};

/* The next NAME=HEX of QEMU's "info registers"; moves @text past it. */
static bool next_register(const char **text, char name[8], uint64_t *value)
{
    for (const char *equals = *text; (equals = strchr(equals, '=')); equals++) {
        const char *begin, *last = equals, *end = equals + 1;
        size_t digits = strspn(end, "0123456789abcdef");

        /* "R8 =0000000000000000" */
        while (last > *text && last[-1] == ' ') {
            last--;
        }
        begin = last;
        while (begin > *text && g_ascii_isalnum(begin[-1])) {
            begin--;
        }
        if (begin == last || last - begin >= 8 || digits < 8 || digits > 16) {
            continue;
        }
        for (unsigned i = 0; i <= last - begin; i++) {
            name[i] = begin + i < last ? g_ascii_tolower(begin[i]) : 0;
        }
        *value = g_ascii_strtoull(end, NULL, 16);
        *text = end + digits;
        return true;
    }
    return false;
}

static void name_address(struct arrival *a, struct trace_index *trace)
{
    struct where where;

    if (trace && trace_index_running(trace, a->icount, &where)) {
        a->name = trace_index_name(trace, &where, a->rip);
        a->task = where_task(&where);
    }
}

static void print_arrival(const struct rr_options *o, const struct arrival *a)
{
    const char *text = a->registers;
    g_auto(GStrv) lines = NULL;
    JsonObject *registers;
    uint64_t value;
    char name[8];

    if (!o->json) {
        if (a->several) {
            cli_printf("vCPU %u, ", a->vcpu);
        }
        cli_printf("instruction %" PRIu64 "%s, at 0x%" PRIx64 "%s%s\n",
                   a->icount, a->exact ? "" : ", the last counted one before "
                   "the place", a->rip,
                   a->name ? " " : "", a->name ? a->name : "");
        if (a->task) {
            cli_printf("task %s\n", a->task);
        }
        lines = g_strsplit(a->registers, "\n", -1);
        for (char **line = lines; *line; line++) {
            g_strchomp(*line);
            if (**line) {
                cli_printf("%s\n", *line);
            }
        }
        return;
    }
    registers = json_object_new();
    while (next_register(&text, name, &value)) {
        btrail_json_add(registers, "X:-", value, NULL);
        json_object_set_member(registers, name,
                               json_object_dup_member(registers, "-"));
        json_object_remove_member(registers, "-");
    }
    cli_print_json(btrail_json_new(
        "U:icount", a->icount, "b:exact", a->exact, "u:vcpu", a->vcpu,
        "X:rip", a->rip, "S:name", a->name, "S:task", a->task,
        "o:registers", registers, NULL));
}

static bool arrive(struct rr_options *o, struct arrival *a, GError **error)
{
    struct player_options options = rr_player(o);
    struct player *p;
    g_autofree char *line = g_strdup_printf("info registers %u", a->vcpu);
    const char *text;
    char name[8];
    uint64_t value;
    bool ok;

    options.saved = true;
    p = rr_start(o, &options, error);
    if (!p) {
        return false;
    }
    ok = player_goto(p, a->icount, error);
    rr_end_progress(o);
    a->registers = ok ? player_hmp(p, line, error) : NULL;
    text = a->registers;
    while (text && next_register(&text, name, &value)) {
        if (!strcmp(name, "rip") || !strcmp(name, "eip")) {
            a->rip = value;
        }
    }
    if (!a->registers) {
        cli_take_interrupt();
    }
    player_free(p);
    return a->registers;
}

static int go(struct rr_options *o, const struct find_place *place)
{
    g_autoptr(GError) error = NULL;
    struct rr_found found;
    struct arrival a = { .icount = 0 };
    int code = CLI_OK;
    bool ok = rr_find(o, place, &found, &error);

    a.icount = found.icount;
    a.exact = found.exact;
    a.vcpu = turns_vcpu(found.turns, found.icount);
    a.several = found.turns;
    if (ok && arrive(o, &a, &error)) {
        name_address(&a, found.index);
        print_arrival(o, &a);
    } else {
        code = rr_failed(error);
    }
    rr_found_clear(&found);
    g_free(a.registers);
    g_free(a.name);
    g_free(a.task);
    return code;
}

int rr_goto(int argc, char **argv)
{
    struct rr_options o = { .signals = -1 };
    const GOptionEntry entries[] = {
        RR_SYMBOL_ENTRIES(&o), RR_ENTRIES(&o), { NULL }
    };
    struct find_place place = { .name = NULL };
    g_autoptr(GError) error = NULL;
    int code = CLI_USAGE;

    if (cli_parse(&argc, &argv, entries, 2, "FOLDER PLACE",
                  "Go to a place of a recording: a number of instructions, a "
                  "time (1.5s), a record\n(@N or VCPU:N), a function of the "
                  "kernel (panic, panic#3, last panic) or of a\nprocess "
                  "(PROCESS:FUNCTION), 'last PROCESS', 'last exit of "
                  "PROCESS', or where\nthe guest has written a text to a "
                  "serial port ('output \"TEXT\"').")) {
        if (!find_place_parse(argv[2], &place, &error)) {
            cli_error("%s", error->message);
        } else if (rr_open(&o, argv[1], &code)) {
            code = go(&o, &place);
        }
    }
    find_place_clear(&place);
    rr_clear(&o);
    return code == CLI_OK && fflush(stdout) ? CLI_FAILED : code;
}
