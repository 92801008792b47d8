/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that is debugged: see vm.h
 */

#include <inttypes.h>
#include <string.h>

#include "gdb/breakpoints.h"
#include "gdb/packet.h"
#include "gdb/rsp.h"
#include "gdb/vm.h"

#define RUN_MS      60000
/* How often it is asked whether to continue */
#define ASK_MS      20
/*
 * Interrupts and exceptions that can come one after the other at the same
 * instruction count, for each vCPU
 */
#define MAX_NESTED  8

/**
 * struct vm
 * @vcpus:    the gdbstub has a thread for each, from 1
 * @selected: the vCPU that its requests are about, or -1 if that is not known
 */
struct vm {
    struct stub *stub;
    struct vm_moves moves;
    char *features;
    unsigned vcpus;
    int selected;
    struct vm_place at;
    bool written;               /* a debugger has changed the guest */
    int written_vcpu;           /* the registers of this one, or -1 */
    bool diverted;              /* it executes what was not recorded */
    bool ran;                   /* it can be after interrupts at its icount */
    GHashTable *inserted;       /* as in vm_set_breakpoints() */
};

static bool protocol_error(GError **error, const char *what,
                           const char *answer)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "QEMU's gdbstub %s: '%s'", what, answer);
    return false;
}

/* Has the gdbstub a thread for each vCPU, in their order? */
static bool count_threads(struct vm *vm, GError **error)
{
    const char *request = "qfThreadInfo";

    for (;;) {
        g_autofree char *answer = stub_ask(vm->stub, request, NULL, NULL,
                                           error);
        const char *text = answer;
        uint64_t thread;

        if (!answer) {
            return false;
        }
        if (*text != 'm') {
            return vm->vcpus || protocol_error(error, "lists no threads",
                                               answer);
        }
        do {
            text++;
            if (vm->vcpus == VCPU_COUNT_MAX ||
                !packet_thread(&text, &thread) || thread != ++vm->vcpus) {
                return protocol_error(error, "lists other threads than vCPUs",
                                      answer);
            }
        } while (*text == ',');
        request = "qsThreadInfo";
    }
}

/* Threads without processes: a guest is one process to QEMU. */
static bool greet(struct vm *vm, GError **error)
{
    g_autofree char *stop = NULL;

    vm->features = stub_ask(vm->stub, "qSupported:vContSupported+", NULL, NULL,
                            error);
    if (!vm->features) {
        return false;
    }
    stop = stub_ask(vm->stub, "?", NULL, NULL, error);
    if (!stop) {
        return false;
    }
    if (stop[0] != 'T') {
        return protocol_error(error, "does not say why the guest is stopped",
                              stop);
    }
    if (vm->moves.turns) {
        return count_threads(vm, error);
    }
    vm->vcpus = 1;
    return true;
}

struct vm *vm_new(int sock, const struct vm_moves *moves,
                  GError **error)
{
    struct vm *vm = g_new0(struct vm, 1);

    vm->stub = stub_new(sock);
    vm->moves = *moves;
    vm->selected = -1;
    vm->written_vcpu = -1;
    vm->inserted = breakpoints_new();
    if (!greet(vm, error) || !vm_find(vm, error)) {
        vm_free(vm);
        return NULL;
    }
    return vm;
}

void vm_free(struct vm *vm)
{
    if (vm) {
        stub_free(vm->stub);
        g_free(vm->features);
        g_hash_table_destroy(vm->inserted);
        g_free(vm);
    }
}

struct stub *vm_stub(struct vm *vm)
{
    return vm->stub;
}

const char *vm_features(const struct vm *vm)
{
    return vm->features;
}

unsigned vm_vcpus(const struct vm *vm)
{
    return vm->vcpus;
}

const struct turns *vm_turns(const struct vm *vm)
{
    return vm->moves.turns;
}

const struct vm_place *vm_place(const struct vm *vm)
{
    return &vm->at;
}

/* What follows is about a vCPU. */
static bool choose(struct vm *vm, unsigned vcpu, GError **error)
{
    g_autofree char *request = NULL, *answer = NULL;

    if (vm->vcpus == 1 || (vm->selected == (int)vcpu && !vm->diverted)) {
        return true;
    }
    request = g_strdup_printf("Hg%x", vcpu + 1);
    answer = stub_ask(vm->stub, request, NULL, NULL, error);
    if (!answer) {
        return false;
    }
    vm->selected = vcpu;
    return !strcmp(answer, "OK") ||
           protocol_error(error, "has no such thread", request);
}

char *vm_number(struct vm *vm, unsigned vcpu, const char *request,
                uint64_t *number, bool *known, GError **error)
{
    char *digits = choose(vm, vcpu, error) ?
        stub_ask(vm->stub, request, NULL, NULL, error) : NULL;
    size_t n = 0;
    g_autofree char *bytes = digits ? rsp_unhex(digits, &n) : NULL;

    *known = n == sizeof(*number);
    if (*known) {
        memcpy(number, bytes, n);
        *number = GUINT64_FROM_LE(*number);
    }
    return digits;
}

static bool read_pc(struct vm *vm, unsigned vcpu, GError **error)
{
    bool known;
    g_autofree char *digits = vm_number(vm, vcpu, VM_READ_PC,
                                        &vm->at.pcs[vcpu], &known, error);

    return digits && (known || protocol_error(error, "does not say where the "
                                              "guest is", digits));
}

bool vm_find(struct vm *vm, GError **error)
{
    /* QEMU chooses one whenever the guest stops. */
    vm->selected = -1;
    for (unsigned i = 0; i < vm->vcpus; i++) {
        if (!read_pc(vm, i, error)) {
            return false;
        }
    }
    if (!vm->moves.icount(vm->moves.opaque, &vm->at.icount, error)) {
        return false;
    }
    vm->at.vcpu = MIN(turns_vcpu(vm->moves.turns, vm->at.icount),
                      vm->vcpus - 1);
    vm->at.pc = vm->at.pcs[vm->at.vcpu];
    vm->ran = true;
    return true;
}

bool vm_goes_on(const struct vm *vm)
{
    return !vm->moves.goes_on || vm->moves.goes_on(vm->moves.opaque);
}

/*
 * The answer is NULL if the guest has not stopped in time, or is not to
 * continue.
 */
static bool wait_stopped(struct vm *vm, char **answer, bool *goes_on,
                         GError **error)
{
    *answer = NULL;
    *goes_on = true;
    for (unsigned waited = 0; waited < RUN_MS && !*answer; waited += ASK_MS) {
        if (!stub_stopped(vm->stub, ASK_MS, answer, error)) {
            return false;
        }
        *goes_on = *answer || vm_goes_on(vm);
        if (!*goes_on) {
            break;
        }
    }
    return true;
}

/* @said: what QEMU says of the stop, to be freed; or NULL */
static bool run(struct vm *vm, const char *request, char **said,
                GError **error)
{
    g_autofree char *answer = NULL;
    bool goes_on;

    if (!stub_run(vm->stub, request, error) ||
        !wait_stopped(vm, &answer, &goes_on, error)) {
        return false;
    }
    if (!answer && (!stub_interrupt(vm->stub, error) ||
                    !stub_stopped(vm->stub, RUN_MS, &answer, error))) {
        return false;
    }
    if (!answer || answer[0] != 'T') {
        return protocol_error(error, "does not stop", answer ? answer : "");
    }
    if (said) {
        *said = g_steal_pointer(&answer);
    }
    if (!vm_find(vm, error)) {
        return false;
    }
    return goes_on || agent_fail(error, AGENT_ERROR_CANCELLED,
                                 "interrupted");
}

/* The log says when it is the turn of this vCPU: others have to run, too. */
static bool step(struct vm *vm, unsigned vcpu, char **said, GError **error)
{
    g_autofree char *request = g_strdup_printf("vCont;s:%x;c", vcpu + 1);

    return run(vm, request, said, error);
}

bool vm_step(struct vm *vm, unsigned vcpu, GError **error)
{
    return step(vm, vcpu, NULL, error);
}

char *vm_watchpoint(const char *said)
{
    const char *watch = strstr(said, "watch:"), *start;
    size_t n;

    if (!watch) {
        return NULL;
    }
    n = strlen("watch:");
    n += strspn(watch + n, "0123456789abcdef");
    /* "rwatch" and "awatch" */
    start = watch > said && strchr("ra", watch[-1]) ? watch - 1 : watch;
    return g_strndup(start, watch + n - start);
}

bool vm_step_watched(struct vm *vm, GHashTable *breakpoints, char **hit,
                     GError **error)
{
    g_autofree char *said = NULL;

    *hit = NULL;
    if (!vm_set_breakpoints(vm, breakpoints, error) ||
        !step(vm, vm->at.vcpu, &said, error)) {
        return false;
    }
    *hit = vm_watchpoint(said);
    return true;
}

bool vm_output(const struct vm *vm, const struct find_place *place,
               uint64_t *icount, GError **error)
{
    return vm->moves.output ?
        vm->moves.output(vm->moves.opaque, place, icount, error) :
        agent_fail(error, AGENT_ERROR_COMMAND,
                   "it is not known what the guest writes");
}

char *vm_checkpoints(const struct vm *vm, GError **error)
{
    return vm->moves.checkpoints ?
        vm->moves.checkpoints(vm->moves.opaque, error) : g_strdup("");
}

char *vm_forward(struct vm *vm, unsigned vcpu, const char *request,
                 size_t length, size_t *n, GError **error)
{
    if (!choose(vm, vcpu, error)) {
        return NULL;
    }
    if (request[0] && strchr("GPMX", request[0])) {
        vm->written = true;
    }
    if (request[0] == 'G' || request[0] == 'P') {
        vm->written_vcpu = vcpu;
    }
    return stub_forward(vm->stub, request, length, n, error);
}

char *vm_breakpoint(struct vm *vm, const char *key,
                    const char *conditions, GError **error)
{
    const char *there = g_hash_table_lookup(vm->inserted, key);
    g_autofree char *request = NULL;
    char *answer;

    if (!g_strcmp0(there, conditions)) {
        return g_strdup("OK");
    }
    request = conditions ? g_strconcat("Z", key, conditions, NULL) :
                           g_strconcat("z", key, NULL);
    answer = stub_ask(vm->stub, request, NULL, NULL, error);
    if (answer && !strcmp(answer, "OK")) {
        breakpoints_set(vm->inserted, key, conditions);
    }
    return answer;
}

/*
 * Makes those of @from that @other does not have, or has otherwise, as they are
 * in @want.
 */
static bool change(struct vm *vm, GHashTable *from, GHashTable *other,
                   GHashTable *want, GError **error)
{
    g_autoptr(GList) keys = g_hash_table_get_keys(from);

    for (GList *k = keys; k; k = k->next) {
        const char *conditions = g_hash_table_lookup(from, k->data);
        const char *there = g_hash_table_lookup(other, k->data);
        g_autofree char *key = g_strdup(k->data), *answer = NULL;

        if (!g_strcmp0(conditions, there)) {
            continue;
        }
        answer = vm_breakpoint(vm, key, from == want ? conditions : NULL,
                               error);
        if (!answer) {
            return false;
        }
        if (strcmp(answer, "OK")) {
            return protocol_error(error, "has no such breakpoint", key);
        }
    }
    return true;
}

bool vm_set_breakpoints(struct vm *vm, GHashTable *want,
                        GError **error)
{
    return change(vm, vm->inserted, want, want, error) &&
           change(vm, want, vm->inserted, want, error);
}

/* Has one of them conditions where a vCPU is? */
static bool is_conditional(struct vm *vm, unsigned vcpu,
                           GHashTable *breakpoints, bool *any)
{
    bool conditional = false;

    *any = false;
    for (unsigned type = 0; type <= 1; type++) {
        g_autofree char *key = breakpoints_key(type, vm->at.pcs[vcpu], 1);
        const char *conditions = g_hash_table_lookup(breakpoints, key);

        *any |= conditions != NULL;
        conditional |= conditions && *conditions;
    }
    return conditional;
}

bool vm_at_breakpoint(struct vm *vm, unsigned vcpu,
                      GHashTable *breakpoints)
{
    const char *request = "qqemu.AtBreakpoint";
    g_autofree char *answer = NULL;
    bool any;
    size_t n;

    if (is_conditional(vm, vcpu, breakpoints, &any) &&
        vm_set_breakpoints(vm, breakpoints, NULL)) {
        answer = vm_forward(vm, vcpu, request, strlen(request), &n, NULL);
    }
    return any && g_strcmp0(answer, "0");
}

bool vm_go_icount(struct vm *vm, uint64_t icount, GError **error)
{
    g_autoptr(GHashTable) none = breakpoints_new();
    uint64_t other = icount ? icount - 1 : 1;

    /* They would stop it on its way. */
    if (!vm_set_breakpoints(vm, none, error)) {
        return false;
    }
    /*
     * What was written is not in the replay, and an interrupt due after this
     * place was delivered already: come from elsewhere.
     */
    if ((vm->written || (vm->ran && vm->at.icount == icount)) &&
        !vm->moves.go(vm->moves.opaque, other, error)) {
        return false;
    }
    vm->written = vm->diverted = false;
    vm->written_vcpu = -1;
    if (!vm->moves.go(vm->moves.opaque, icount, error)) {
        /* It may have moved all the same. */
        vm_find(vm, NULL);
        return false;
    }
    if (!vm_find(vm, error)) {
        return false;
    }
    vm->ran = false;
    return true;
}

static bool elsewhere(const struct vm *vm, uint64_t icount, unsigned vcpu,
                      uint64_t pc, GError **error)
{
    g_set_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL,
                "instruction %" G_GUINT64_FORMAT " is at 0x%" PRIx64
                ", and was at 0x%" PRIx64, icount, vm->at.pcs[vcpu], pc);
    return false;
}

/* After interrupts and exceptions that come before the next instruction */
static bool pass_interrupts(struct vm *vm, unsigned vcpu, uint64_t pc,
                            GError **error)
{
    uint64_t icount = vm->at.icount;

    for (unsigned i = 0; vm->at.pcs[vcpu] != pc; i++) {
        if (i == MAX_NESTED) {
            return elsewhere(vm, icount, vcpu, pc, error);
        }
        if (!vm_step(vm, vcpu, error)) {
            return false;
        }
        if (vm->at.icount != icount) {
            return elsewhere(vm, icount, vcpu, pc, error);
        }
    }
    return true;
}

bool vm_written(const struct vm *vm, unsigned *vcpu)
{
    if (vcpu) {
        *vcpu = vm->written_vcpu < 0 ? vm->at.vcpu :
                (unsigned)vm->written_vcpu;
    }
    return vm->written;
}

bool vm_divert(struct vm *vm, unsigned vcpu, GError **error)
{
    if (!vm->diverted && !vm->moves.divert) {
        return agent_fail(error, AGENT_ERROR_COMMAND,
                          "this QEMU cannot call functions in a replay");
    }
    vm->diverted = vm->diverted ||
                   vm->moves.divert(vm->moves.opaque, vcpu, error);
    return vm->diverted;
}

bool vm_diverted(const struct vm *vm)
{
    return vm->diverted;
}

bool vm_leave_search(struct vm *vm, uint64_t *end, GError **error)
{
    uint64_t begin, next;

    /*
     * It can have been about to continue; a request to the stub would be
     * lost.
     */
    if (!vm->moves.halt(vm->moves.opaque, &begin, &next, error)) {
        return false;
    }
    /* Places are searched up to and with that of a state that is kept. */
    *end = next < *end ? next + 1 : *end;
    /* The shortest step back that there is: it ends the search. */
    return vm_go_icount(vm, begin + 1, error) && run(vm, "bs", NULL, error);
}

bool vm_go_vcpu(struct vm *vm, uint64_t icount, unsigned vcpu,
                uint64_t pc, GError **error)
{
    return (vm->at.icount == icount && vm->at.pcs[vcpu] == pc &&
            !vm->written) ||
           (vm_go_icount(vm, icount, error) &&
            pass_interrupts(vm, vcpu, pc, error));
}

static bool is_at(const struct vm *vm, const struct vm_place *place)
{
    return vm->at.icount == place->icount && !vm->written &&
           !memcmp(vm->at.pcs, place->pcs, sizeof(place->pcs));
}

bool vm_go(struct vm *vm, const struct vm_place *place,
           GError **error)
{
    if (is_at(vm, place)) {
        return true;
    }
    if (!vm_go_icount(vm, place->icount, error)) {
        return false;
    }
    for (unsigned i = 0; i < vm->vcpus; i++) {
        if (!pass_interrupts(vm, i, place->pcs[i], error)) {
            return false;
        }
    }
    return true;
}
