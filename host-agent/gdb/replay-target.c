/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A replay that gdbs debug: see replay-target.h
 */

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "gdb/replay-monitor.h"
#include "gdb/replay-target.h"
#include "gdb/replay-view.h"

/* What the server does by itself, or what QEMU offers for one gdb alone: in a
 * replay, the way back is that of the replay. */
static bool is_withheld(const char *feature)
{
    return !strcmp(feature, "multiprocess+") ||
           g_str_has_prefix(feature, "Reverse") ||
           g_str_has_prefix(feature, "Qbtrace") ||
           g_str_has_prefix(feature, "qXfer:btrace");
}

/* QEMU is asked in the name of all: what one gdb supports does not matter. */
static void add_features(void *opaque, GString *features)
{
    struct replay_view *v = opaque;
    g_auto(GStrv) parts = g_strsplit(vm_features(v->r->vm), ";", -1);

    for (char **p = parts; *p; p++) {
        if (**p && !is_withheld(*p)) {
            g_string_append_printf(features, ";%s", *p);
        }
    }
}

static char *insert(void *opaque, const char *key, const char *conditions,
                    GError **error)
{
    struct replay_view *v = opaque;

    return vm_breakpoint(v->r->vm, key, conditions, error);
}

static char *run_command(void *opaque, const struct monitor_command *c,
                         const char *argument, const char *line,
                         GError **error)
{
    struct replay_view *v = opaque;
    char *text = NULL;

    /* QEMU's own commands are about what there is. */
    if (c) {
        replay_view_take_back(v);
    }
    if (replay_view_claim(v, error)) {
        text = c ? c->run(v, argument, error) :
                   replay_monitor_pass_on(v, line, error);
    }
    if (text) {
        replay_view_note(v);
    } else {
        /* The guest may be on its way: it is taken back. */
        v->r->current = NULL;
    }
    return text;
}

static void append_found(void *opaque, GByteArray *then)
{
    struct replay_view *v = opaque;

    if (v->found.by) {
        g_byte_array_append(then, (const void *)&v->found, sizeof(v->found));
    }
}

/* The guest may run for another one. */
static char *follow(void *opaque, const void *then, size_t n)
{
    struct replay_found found = { 0 };

    memcpy(&found, then, MIN(n, sizeof(found)));
    return g_strdup_printf("%s %" PRIu64, found.by, found.icount);
}

static void pass_on(void *opaque, const char *request, size_t n)
{
    struct replay_view *v = opaque;
    g_autofree char *said = NULL;
    GError *error = NULL;
    size_t length;

    if (replay_view_claim(v, &error)) {
        said = vm_forward(v->r->vm, replay_view_vcpu(v), request, n,
                          &length, &error);
    }
    if (said) {
        gdb_server_answer_bytes(v->server, said, length);
    } else {
        replay_view_refuse(v, error);
    }
}

/* QEMU takes any number. */
static void serve_physical(void *opaque, const struct packet_value *values)
{
    struct replay_view *v = opaque;

    v->physical = values[0].number;
    pass_on(v, v->server->request, v->server->n);
}

static bool list_thread(void *opaque, unsigned i, uint64_t *thread)
{
    struct replay_view *v = opaque;

    *thread = i + 1;
    return i < vm_vcpus(v->r->vm);
}

/* What a vCPU runs; NULL if the trace does not say it */
static char *describe(void *opaque, uint64_t thread)
{
    struct replay_view *v = opaque;
    g_autofree char *task = NULL;
    struct where where;

    if (!v->r->trace ||
        !trace_index_where(v->r->trace, thread - 1, v->place.icount, &where)) {
        return NULL;
    }
    task = where_task(&where);
    return g_strdup_printf("vCPU %u: %s", where.vcpu, task);
}

static struct process_symbols *get_files(void *opaque)
{
    struct replay_view *v = opaque;

    return v->r->symbols;
}

/* The process whose files gdb has here */
static const struct process *shown_process(struct replay_view *v,
                                           struct symbolizer_where *where)
{
    struct trace_index *trace = v->r->trace;
    const struct process *process =
        trace_index_process(trace, v->shown == UINT64_MAX ? v->place.icount :
                                                            v->shown);

    *where = where_record(&trace->last);
    return process;
}

static unsigned list_files(void *opaque)
{
    struct replay_view *v = opaque;
    struct symbolizer_where where;
    const struct process *process = shown_process(v, &where);

    return process_symbols_list(v->r->symbols, process, &where, v->place.pc);
}

static uint64_t get_pc(void *opaque, uint64_t thread)
{
    struct replay_view *v = opaque;

    return v->place.pcs[thread - 1];
}

/*
 * A process has the files that gdb has also where QEMU cannot read them: where
 * the page is not in memory yet, or its page table is not in force.
 */
static void serve_memory(void *opaque, const struct packet_value *values)
{
    struct replay_view *v = opaque;
    uint64_t address = values[0].number;
    const struct process *process = NULL;
    struct symbolizer_where where;
    char buf[VM_PACKET_SIZE / 2];
    g_autofree char *said = NULL;
    GError *error = NULL;
    bool absent = false;
    size_t length = 0, n = 0;

    if (v->r->symbols && !v->physical && address < ADDRESS_SHARED) {
        process = shown_process(v, &where);
        absent = process && (v->r->trace->left || v->shown != UINT64_MAX);
    }
    if (!absent && replay_view_claim(v, &error)) {
        said = vm_forward(v->r->vm, replay_view_vcpu(v), v->server->request,
                          v->server->n, &length, &error);
    }
    if (error) {
        replay_view_refuse(v, error);
        return;
    }
    if (process && (absent || said[0] == 'E')) {
        n = symbolizer_constant(v->r->trace->symbols, process, &where, address,
                                buf, MIN(values[1].number, sizeof(buf)));
    }
    if (n) {
        gdb_server_answer_hex(v->server, buf, n);
    } else if (absent) {
        gdb_server_answer(v->server, "E14");
    } else {
        gdb_server_answer_bytes(v->server, said, length);
    }
}

static const struct packet packets[] = {
    { PHYSICAL, "n", PACKET_ASKS, serve_physical },
    { "m", "n,n", PACKET_ASKS, serve_memory },
    { NULL },
};

static const struct target_ops ops = {
    .packet_size = VM_PACKET_SIZE,
    .packets = packets,
    .commands = replay_monitor_commands,
    .ask = replay_view_ask,
    .interrupt = replay_view_interrupt,
    .left = replay_view_left,
    .features = add_features,
    .thread = list_thread,
    .describe = describe,
    .step = replay_view_step,
    .go_on = replay_view_go_on,
    .breakpoint = insert,
    .files = get_files,
    .list = list_files,
    .pc = get_pc,
    .unknown = pass_on,
    .command = run_command,
    .remains = append_found,
    .follow = follow,
    .failed = replay_view_refuse,
};

void replay_target_add(struct replay_target *r, int sock)
{
    struct replay_view *v;

    if (r->views->len >= GDB_SERVERS_MAX) {
        close(sock);
        return;
    }
    v = g_new0(struct replay_view, 1);
    v->r = r;
    v->place = r->running ? r->running->place : *vm_place(r->vm);
    v->shown = UINT64_MAX;
    v->steps = -1;
    v->server = gdb_server_new(&ops, v, NULL, sock, sock, v->place.vcpu + 1);
    g_ptr_array_add(r->views, v);
}

