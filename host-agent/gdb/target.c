/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that is debugged: see target.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/rsp.h"
#include "gdb/target.h"

#define RUN_MS      60000
/* Whether it is to go on is asked so often. */
#define ASK_MS      20
/* The number of rip in the target description of x86-64 */
#define READ_PC     "p10"
/* Interrupts and exceptions that can come one after the other at the same
 * instruction count, for each vCPU */
#define MAX_NESTED  8

/**
 * struct target
 * @threads:  of char *: the gdbstub's, one for each vCPU
 * @selected: the vCPU that its requests are about, or -1 if that is not known
 */
struct target {
    struct stub *stub;
    struct target_moves moves;
    char *features;
    GPtrArray *threads;
    int selected;
    struct target_place at;
    bool written;               /* a debugger has changed the guest */
    bool ran;                   /* it can be behind interrupts at its icount */
    GHashTable *inserted;       /* as in target_set_breakpoints() */
};

static bool protocol_error(GError **error, const char *what,
                           const char *answer)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "QEMU's gdbstub %s: '%s'", what, answer);
    return false;
}

/* The thread in "T05thread:01;", to be freed; NULL if there is none */
static char *thread_in(const char *stop)
{
    const char *thread = strstr(stop, "thread:");
    const char *end = thread ? strchr(thread, ';') : NULL;

    if (stop[0] != 'T' || !end) {
        return NULL;
    }
    thread += strlen("thread:");
    return g_strndup(thread, end - thread);
}

/* One thread for each vCPU, in their order */
static bool list_threads(struct target *t, GError **error)
{
    const char *request = "qfThreadInfo";

    for (;;) {
        g_autofree char *answer = stub_ask(t->stub, request, NULL, NULL,
                                           error);
        g_auto(GStrv) threads = NULL;

        if (!answer) {
            return false;
        }
        if (answer[0] != 'm') {
            return t->threads->len ||
                   protocol_error(error, "lists no threads", answer);
        }
        threads = g_strsplit(answer + 1, ",", -1);
        for (char **thread = threads; *thread; thread++) {
            if (t->threads->len == VCPU_COUNT_MAX ||
                g_ascii_strtoull(*thread, NULL, 16) != t->threads->len + 1) {
                return protocol_error(error, "lists other threads than vCPUs",
                                      answer);
            }
            g_ptr_array_add(t->threads, g_strdup(*thread));
        }
        request = "qsThreadInfo";
    }
}

/* Threads without processes: a guest is one process to QEMU. */
static bool greet(struct target *t, GError **error)
{
    g_autofree char *stop = NULL, *thread = NULL;

    t->features = stub_ask(t->stub, "qSupported:vContSupported+", NULL, NULL,
                           error);
    if (!t->features) {
        return false;
    }
    stop = stub_ask(t->stub, "?", NULL, NULL, error);
    if (!stop) {
        return false;
    }
    thread = thread_in(stop);
    if (!thread) {
        return protocol_error(error, "does not say how the guest stands",
                              stop);
    }
    if (t->moves.turns) {
        return list_threads(t, error);
    }
    g_ptr_array_add(t->threads, g_steal_pointer(&thread));
    return true;
}

struct target *target_new(int sock, const struct target_moves *moves,
                          GError **error)
{
    struct target *t = g_new0(struct target, 1);

    t->stub = stub_new(sock);
    t->moves = *moves;
    t->threads = g_ptr_array_new_with_free_func(g_free);
    t->selected = -1;
    t->inserted = target_breakpoints_new();
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
        g_ptr_array_unref(t->threads);
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

unsigned target_vcpus(const struct target *t)
{
    return t->threads->len;
}

const char *target_thread(const struct target *t, unsigned vcpu)
{
    return g_ptr_array_index(t->threads, vcpu);
}

bool target_vcpu(const struct target *t, const char *thread, unsigned *vcpu)
{
    /* "p1.2" names the process, too. */
    const char *point = thread[0] == 'p' ? strchr(thread, '.') : NULL;
    guint64 number = g_ascii_strtoull(point ? point + 1 : thread, NULL, 16);

    for (unsigned i = 0; i < t->threads->len; i++) {
        if (g_ascii_strtoull(target_thread(t, i), NULL, 16) == number) {
            *vcpu = i;
            return true;
        }
    }
    return false;
}

const struct turns *target_turns(const struct target *t)
{
    return t->moves.turns;
}

const struct target_place *target_place(const struct target *t)
{
    return &t->at;
}

/* What follows is about a vCPU. */
static bool choose(struct target *t, unsigned vcpu, GError **error)
{
    g_autofree char *request = NULL, *answer = NULL;

    if (t->threads->len == 1 || t->selected == (int)vcpu) {
        return true;
    }
    request = g_strconcat("Hg", target_thread(t, vcpu), NULL);
    answer = stub_ask(t->stub, request, NULL, NULL, error);
    if (!answer) {
        return false;
    }
    t->selected = vcpu;
    return !strcmp(answer, "OK") ||
           protocol_error(error, "has no such thread", request);
}

static bool read_pc(struct target *t, unsigned vcpu, GError **error)
{
    g_autofree char *digits = choose(t, vcpu, error) ?
        stub_ask(t->stub, READ_PC, NULL, NULL, error) : NULL;
    g_autofree char *bytes = NULL;
    uint64_t pc;
    size_t n = 0;

    if (!digits) {
        return false;
    }
    bytes = rsp_unhex(digits, &n);
    if (n != sizeof(pc)) {
        return protocol_error(error, "does not say where the guest stands",
                              digits);
    }
    memcpy(&pc, bytes, sizeof(pc));
    t->at.pcs[vcpu] = GUINT64_FROM_LE(pc);
    return true;
}

bool target_find(struct target *t, GError **error)
{
    /* QEMU chooses one whenever the guest stops. */
    t->selected = -1;
    for (unsigned i = 0; i < t->threads->len; i++) {
        if (!read_pc(t, i, error)) {
            return false;
        }
    }
    if (!t->moves.icount(t->moves.opaque, &t->at.icount, error)) {
        return false;
    }
    t->at.vcpu = MIN(turns_vcpu(t->moves.turns, t->at.icount),
                     t->threads->len - 1);
    t->at.pc = t->at.pcs[t->at.vcpu];
    t->ran = true;
    return true;
}

bool target_goes_on(const struct target *t)
{
    return !t->moves.goes_on || t->moves.goes_on(t->moves.opaque);
}

/* The answer is NULL if the guest has not stopped in time, or is not to go
 * on. */
static bool wait_stopped(struct target *t, char **answer, bool *goes_on,
                         GError **error)
{
    *answer = NULL;
    *goes_on = true;
    for (unsigned waited = 0; waited < RUN_MS && !*answer; waited += ASK_MS) {
        if (!stub_stopped(t->stub, ASK_MS, answer, error)) {
            return false;
        }
        *goes_on = *answer || target_goes_on(t);
        if (!*goes_on) {
            break;
        }
    }
    return true;
}

/* @said: what QEMU says of the stop, to be freed; or NULL */
static bool run(struct target *t, const char *request, char **said,
                GError **error)
{
    g_autofree char *answer = NULL;
    bool goes_on;

    if (!stub_run(t->stub, request, error) ||
        !wait_stopped(t, &answer, &goes_on, error)) {
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
    if (!target_find(t, error)) {
        return false;
    }
    return goes_on || btrail_agent_fail(error, BTRAIL_AGENT_ERROR_CANCELLED,
                                        "interrupted");
}

/* The log says when it is the turn of this vCPU: others have to run, too. */
static bool step(struct target *t, unsigned vcpu, char **said, GError **error)
{
    g_autofree char *request = g_strdup_printf("vCont;s:%s;c",
                                               target_thread(t, vcpu));

    return run(t, request, said, error);
}

bool target_step(struct target *t, unsigned vcpu, GError **error)
{
    return step(t, vcpu, NULL, error);
}

bool target_step_watched(struct target *t, GHashTable *breakpoints,
                         char **hit, GError **error)
{
    g_autofree char *said = NULL;
    const char *watch, *start;
    size_t n;

    *hit = NULL;
    if (!target_set_breakpoints(t, breakpoints, error) ||
        !step(t, t->at.vcpu, &said, error)) {
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

char *target_forward(struct target *t, unsigned vcpu, const char *request,
                     size_t length, size_t *n, GError **error)
{
    if (!choose(t, vcpu, error)) {
        return NULL;
    }
    if (request[0] && strchr("GPMX", request[0])) {
        t->written = true;
    }
    return stub_forward(t->stub, request, length, n, error);
}

GHashTable *target_breakpoints_new(void)
{
    return g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
}

/* What a request has before its conditions */
static char *key_of(const char *request, const char **conditions)
{
    *conditions = strchrnul(request, ';');
    return g_strndup(request + 1, *conditions - request - 1);
}

void target_breakpoints_note(GHashTable *breakpoints, const char *request)
{
    const char *conditions;
    g_autofree char *key = key_of(request, &conditions);

    if (request[0] == 'Z') {
        g_hash_table_insert(breakpoints, g_steal_pointer(&key),
                            g_strdup(conditions));
    } else {
        g_hash_table_remove(breakpoints, key);
    }
}

char *target_breakpoint(struct target *t, const char *request, GError **error)
{
    const char *conditions;
    g_autofree char *key = key_of(request, &conditions);
    const char *there = g_hash_table_lookup(t->inserted, key);
    char *answer;

    if (!g_strcmp0(there, request[0] == 'Z' ? conditions : NULL)) {
        return g_strdup("OK");
    }
    answer = stub_ask(t->stub, request, NULL, NULL, error);
    if (answer && !strcmp(answer, "OK")) {
        target_breakpoints_note(t->inserted, request);
    }
    return answer;
}

/* Those of @from that @other does not have like that, with a letter in front */
static bool change(struct target *t, const char *letter, GHashTable *from,
                   GHashTable *other, GError **error)
{
    g_autoptr(GList) keys = g_hash_table_get_keys(from);

    for (GList *k = keys; k; k = k->next) {
        const char *conditions = g_hash_table_lookup(from, k->data);
        const char *there = g_hash_table_lookup(other, k->data);
        g_autofree char *request = NULL, *answer = NULL;

        if (!g_strcmp0(conditions, there)) {
            continue;
        }
        request = g_strconcat(letter, k->data,
                              letter[0] == 'Z' ? conditions : "", NULL);
        answer = target_breakpoint(t, request, error);
        if (!answer) {
            return false;
        }
        if (strcmp(answer, "OK")) {
            return protocol_error(error, "has no such breakpoint", request);
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

/* Has one of them conditions where a vCPU stands? */
static bool is_conditional(struct target *t, unsigned vcpu,
                           GHashTable *breakpoints, bool *any)
{
    bool conditional = false;

    *any = false;
    for (char type = '0'; type <= '1'; type++) {
        g_autofree char *key = g_strdup_printf("%c,%" PRIx64 ",1", type,
                                               t->at.pcs[vcpu]);
        const char *conditions = g_hash_table_lookup(breakpoints, key);

        *any |= conditions != NULL;
        conditional |= conditions && *conditions;
    }
    return conditional;
}

bool target_at_breakpoint(struct target *t, unsigned vcpu,
                          GHashTable *breakpoints)
{
    const char *request = "qqemu.AtBreakpoint";
    g_autofree char *answer = NULL;
    bool any;
    size_t n;

    if (is_conditional(t, vcpu, breakpoints, &any) &&
        target_set_breakpoints(t, breakpoints, NULL)) {
        answer = target_forward(t, vcpu, request, strlen(request), &n, NULL);
    }
    return any && g_strcmp0(answer, "0");
}

bool target_go_icount(struct target *t, uint64_t icount, GError **error)
{
    g_autoptr(GHashTable) none = target_breakpoints_new();
    uint64_t other = icount ? icount - 1 : 1;

    /* They would stop it on its way. */
    if (!target_set_breakpoints(t, none, error)) {
        return false;
    }
    /* What was written is not in the replay, and an interrupt has come that
     * comes behind this place: come from elsewhere. */
    if ((t->written || (t->ran && t->at.icount == icount)) &&
        !t->moves.go(t->moves.opaque, other, error)) {
        return false;
    }
    t->written = false;
    if (!t->moves.go(t->moves.opaque, icount, error)) {
        /* It may have moved all the same. */
        target_find(t, NULL);
        return false;
    }
    if (!target_find(t, error)) {
        return false;
    }
    t->ran = false;
    return true;
}

static bool elsewhere(const struct target *t, uint64_t icount, unsigned vcpu,
                      uint64_t pc, GError **error)
{
    g_set_error(error, BTRAIL_AGENT_ERROR, BTRAIL_AGENT_ERROR_PROTOCOL,
                "instruction %" G_GUINT64_FORMAT " is at 0x%" PRIx64
                ", and was at 0x%" PRIx64, icount, t->at.pcs[vcpu], pc);
    return false;
}

/* Behind interrupts and exceptions that come before the next instruction */
static bool pass_interrupts(struct target *t, unsigned vcpu, uint64_t pc,
                            GError **error)
{
    uint64_t icount = t->at.icount;

    for (unsigned i = 0; t->at.pcs[vcpu] != pc; i++) {
        if (i == MAX_NESTED) {
            return elsewhere(t, icount, vcpu, pc, error);
        }
        if (!target_step(t, vcpu, error)) {
            return false;
        }
        if (t->at.icount != icount) {
            return elsewhere(t, icount, vcpu, pc, error);
        }
    }
    return true;
}

bool target_leave_search(struct target *t, uint64_t *end, GError **error)
{
    uint64_t begin, next;

    /* It can have been about to go on; a request to the stub would be lost. */
    if (!t->moves.halt(t->moves.opaque, &begin, &next, error)) {
        return false;
    }
    /* Places are searched up to and with that of a state that is kept. */
    *end = next < *end ? next + 1 : *end;
    /* The shortest step back that there is: it ends the search. */
    return target_go_icount(t, begin + 1, error) && run(t, "bs", NULL, error);
}

bool target_go_vcpu(struct target *t, uint64_t icount, unsigned vcpu,
                    uint64_t pc, GError **error)
{
    return (t->at.icount == icount && t->at.pcs[vcpu] == pc && !t->written) ||
           (target_go_icount(t, icount, error) &&
            pass_interrupts(t, vcpu, pc, error));
}

static bool is_at(const struct target *t, const struct target_place *place)
{
    return t->at.icount == place->icount && !t->written &&
           !memcmp(t->at.pcs, place->pcs, sizeof(place->pcs));
}

bool target_go(struct target *t, const struct target_place *place,
               GError **error)
{
    if (is_at(t, place)) {
        return true;
    }
    if (!target_go_icount(t, place->icount, error)) {
        return false;
    }
    for (unsigned i = 0; i < t->threads->len; i++) {
        if (!pass_interrupts(t, i, place->pcs[i], error)) {
            return false;
        }
    }
    return true;
}
