/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * backtrail rr goto: see rr.h
 */

#include <inttypes.h>
#include <string.h>

#include "cli/rr/rr-registers.h"
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
    struct rr_register r;

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
    while (rr_register_next(&text, &r)) {
        json_object_set_string_member(registers, r.name, r.text);
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
    struct rr_register r;
    const char *text;
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
    while (text && rr_register_next(&text, &r)) {
        if (!strcmp(r.name, "rip") || !strcmp(r.name, "eip")) {
            a->rip = r.low;
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
