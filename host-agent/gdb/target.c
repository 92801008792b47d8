/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that is debugged: see target.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/rsp.h"
#include "gdb/target.h"

#define RUN_MS      60000
/* The number of rip in the target description of x86-64 */
#define READ_PC     "p10"

struct target {
    struct stub *stub;
    struct target_moves moves;
    char *features;
    char *thread;
    struct target_place at;
    bool written;               /* a debugger has changed the guest */
    GHashTable *inserted;       /* breakpoints, without "Z" */
};

static bool protocol_error(GError **error, const char *what,
                           const char *answer)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "QEMU's gdbstub %s: '%s'", what, answer);
    return false;
}

/* Threads without processes: a guest is one process to QEMU. */
static bool greet(struct target *t, GError **error)
{
    g_autofree char *features = NULL, *stop = NULL;
    const char *thread, *end;

    features = stub_ask(t->stub, "qSupported:vContSupported+", NULL, NULL,
                        error);
    if (!features) {
        return false;
    }
    stop = stub_ask(t->stub, "?", NULL, NULL, error);
    if (!stop) {
        return false;
    }
    thread = strstr(stop, "thread:");
    end = thread ? strchr(thread, ';') : NULL;
    if (stop[0] != 'T' || !end) {
        return protocol_error(error, "does not say how the guest stands",
                              stop);
    }
    thread += strlen("thread:");
    t->features = g_steal_pointer(&features);
    t->thread = g_strndup(thread, end - thread);
    return true;
}

struct target *target_new(int sock, const struct target_moves *moves,
                          GError **error)
{
    struct target *t = g_new0(struct target, 1);

    t->stub = stub_new(sock);
    t->moves = *moves;
    t->inserted = g_hash_table_new_full(g_str_hash, g_str_equal, g_free,
                                        NULL);
    if (!greet(t, error) || !target_find(t, error)) {
        target_free(t);
        return NULL;
    }
    return t;
}

void target_free(struct target *t)
{
    if (t) {
        stub_free(t->stub);
        g_free(t->features);
        g_free(t->thread);
        g_hash_table_destroy(t->inserted);
        g_free(t);
    }
}

struct stub *target_stub(struct target *t)
{
    return t->stub;
}

const char *target_features(const struct target *t)
{
    return t->features;
}

const char *target_thread(const struct target *t)
{
    return t->thread;
}

const struct target_place *target_place(const struct target *t)
{
    return &t->at;
}

bool target_find(struct target *t, GError **error)
{
    g_autofree char *digits = stub_ask(t->stub, READ_PC, NULL, NULL, error);
    g_autofree char *bytes = NULL;
    size_t n = 0;

    if (!digits) {
        return false;
    }
    bytes = rsp_unhex(digits, &n);
    if (n != sizeof(t->at.pc)) {
        return protocol_error(error, "does not say where the guest stands",
                              digits);
    }
    memcpy(&t->at.pc, bytes, sizeof(t->at.pc));
    t->at.pc = GUINT64_FROM_LE(t->at.pc);
    return t->moves.icount(t->moves.opaque, &t->at.icount, error);
}

/* @said: what QEMU says of the stop, to be freed; or NULL */
static bool run(struct target *t, const char *request, char **said,
                GError **error)
{
    g_autofree char *answer = NULL;

    if (!stub_run(t->stub, request, error) ||
        !stub_stopped(t->stub, RUN_MS, &answer, error)) {
        return false;
    }
    if (!answer && (!stub_interrupt(t->stub, error) ||
                    !stub_stopped(t->stub, RUN_MS, &answer, error))) {
        return false;
    }
    if (!answer || answer[0] != 'T') {
        return protocol_error(error, "does not stop", answer ? answer : "");
    }
    if (said) {
        *said = g_steal_pointer(&answer);
    }
    return target_find(t, error);
}

static bool step(struct target *t, char **said, GError **error)
{
    g_autofree char *request = g_strdup_printf("vCont;s:%s", t->thread);

    return run(t, request, said, error);
}

bool target_step(struct target *t, GError **error)
{
    return step(t, NULL, error);
}

bool target_step_watched(struct target *t, GHashTable *breakpoints,
                         char **hit, GError **error)
{
    g_autofree char *said = NULL;
    const char *watch, *start;
    size_t n;

    *hit = NULL;
    if (!target_set_breakpoints(t, breakpoints, error) ||
        !step(t, &said, error)) {
        return false;
    }
    watch = strstr(said, "watch:");
    if (watch) {
        n = strlen("watch:");
        n += strspn(watch + n, "0123456789abcdef");
        /* "rwatch" and "awatch" */
        start = watch > said && strchr("ra", watch[-1]) ? watch - 1 : watch;
        *hit = g_strndup(start, watch + n - start);
    }
    return true;
}

char *target_checkpoints(const struct target *t, GError **error)
{
    return t->moves.checkpoints ?
        t->moves.checkpoints(t->moves.opaque, error) : g_strdup("");
}

bool target_run_to(struct target *t, uint64_t pc, GError **error)
{
    g_autofree char *key = g_strdup_printf("0,%" PRIx64 ",1", pc);
    g_autofree char *insert = g_strconcat("Z", key, NULL);
    g_autofree char *remove = g_strconcat("z", key, NULL);
    g_autofree char *answer = NULL;
    bool is_new = !g_hash_table_contains(t->inserted, key), ok;

    if (t->at.pc == pc) {
        return true;
    }
    if (is_new) {
        answer = target_breakpoint(t, insert, error);
        if (!answer) {
            return false;
        }
    }
    ok = run(t, "vCont;c", NULL, error);
    if (is_new && ok) {
        g_free(answer);
        answer = target_breakpoint(t, remove, error);
        ok = answer;
    }
    return ok;
}

char *target_forward(struct target *t, const char *request, size_t length,
                     size_t *n, GError **error)
{
    if (request[0] && strchr("GPMX", request[0])) {
        t->written = true;
    }
    return stub_forward(t->stub, request, length, n, error);
}

char *target_breakpoint(struct target *t, const char *request, GError **error)
{
    bool insert = request[0] == 'Z';
    char *answer;

    if (g_hash_table_contains(t->inserted, request + 1) == insert) {
        return g_strdup("OK");
    }
    answer = stub_ask(t->stub, request, NULL, NULL, error);
    if (answer && !strcmp(answer, "OK")) {
        if (insert) {
            g_hash_table_add(t->inserted, g_strdup(request + 1));
        } else {
            g_hash_table_remove(t->inserted, request + 1);
        }
    }
    return answer;
}

/* Those of @from that are not in @other, with a letter in front */
static bool change(struct target *t, const char *letter, GHashTable *from,
                   GHashTable *other, GError **error)
{
    g_autoptr(GList) keys = g_hash_table_get_keys(from);

    for (GList *k = keys; k; k = k->next) {
        g_autofree char *request = NULL, *answer = NULL;

        if (!g_hash_table_contains(other, k->data)) {
            request = g_strconcat(letter, k->data, NULL);
            answer = target_breakpoint(t, request, error);
            if (!answer) {
                return false;
            }
            if (strcmp(answer, "OK")) {
                return protocol_error(error, "has no such breakpoint",
                                      request);
            }
        }
    }
    return true;
}

bool target_set_breakpoints(struct target *t, GHashTable *want,
                            GError **error)
{
    return change(t, "z", t->inserted, want, error) &&
           change(t, "Z", want, t->inserted, error);
}

bool target_go_icount(struct target *t, uint64_t icount, GError **error)
{
    g_autoptr(GHashTable) none = g_hash_table_new(g_str_hash, g_str_equal);
    uint64_t other = icount ? icount - 1 : 1;

    /* They would stop it on its way. */
    if (!target_set_breakpoints(t, none, error)) {
        return false;
    }
    /* What was written is not in the replay: come from elsewhere. */
    if (t->written && !t->moves.go(t->moves.opaque, other, error)) {
        return false;
    }
    t->written = false;
    if (!t->moves.go(t->moves.opaque, icount, error)) {
        /* It may have moved all the same. */
        target_find(t, NULL);
        return false;
    }
    return target_find(t, error);
}

bool target_go(struct target *t, const struct target_place *place,
               GError **error)
{
    if (t->at.icount == place->icount && t->at.pc == place->pc &&
        !t->written) {
        return true;
    }
    if (!target_go_icount(t, place->icount, error)) {
        return false;
    }
    /* Behind an interrupt that comes before the next instruction */
    if (t->at.pc != place->pc && !target_run_to(t, place->pc, error)) {
        return false;
    }
    if (t->at.icount != place->icount || t->at.pc != place->pc) {
        g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                    "instruction %" G_GUINT64_FORMAT " is at 0x%" PRIx64
                    ", and was at 0x%" PRIx64, place->icount, t->at.pc,
                    place->pc);
        return false;
    }
    return true;
}
