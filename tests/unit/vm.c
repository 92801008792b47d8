/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest that is debugged, at QEMU's gdbstub: it goes to each place as it
 * was, whatever was done before, against a guest that the test plays
 */

#include <string.h>

#include "gdb/breakpoints.h"
#include "vm-side.h"

/* A test of a guest of its own; @vm is as it begins. */
typedef void vm_test(struct vm_side *side, struct vm *vm);

struct case_of {
    unsigned vcpus;
    vm_test *test;
};

static void run_test(gconstpointer opaque)
{
    const struct case_of *c = opaque;
    g_autoptr(GError) error = NULL;
    struct vm_side side;
    struct vm *vm;

    vm_side_begin(&side, c->vcpus);
    vm = vm_side_vm(&side, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(vm_vcpus(vm), ==, c->vcpus);
    c->test(&side, vm);
    vm_free(vm);
    vm_side_end(&side);
}

static void add_test(const char *path, unsigned vcpus, vm_test *test)
{
    struct case_of *c = g_new(struct case_of, 1);

    *c = (struct case_of) { vcpus, test };
    g_test_add_data_func_full(path, c, run_test, g_free);
}

/* It is where it is said to be. */
static void check_place(const struct vm_side *side, const struct vm *vm)
{
    const struct vm_place *at = vm_place(vm);

    g_assert_cmpuint(at->icount, ==, side->icount);
    g_assert_cmpuint(at->vcpu, ==, side->turns[side->icount]);
    for (unsigned i = 0; i < side->vcpus; i++) {
        g_assert_cmphex(at->pcs[i], ==, vm_side_pc(side, i));
    }
    g_assert_cmphex(at->pc, ==, at->pcs[at->vcpu]);
}

static void step(struct vm_side *side, struct vm *vm, unsigned vcpu)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(vm_step(vm, vcpu, &error));
    g_assert_no_error(error);
    check_place(side, vm);
}

static void go(struct vm_side *side, struct vm *vm,
               const struct vm_place *place)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(vm_go(vm, place, &error));
    g_assert_no_error(error);
    check_place(side, vm);
    g_assert_false(vm_written(vm, NULL));
}

static void go_icount(struct vm_side *side, struct vm *vm, uint64_t icount)
{
    g_autoptr(GError) error = NULL;

    g_assert_true(vm_go_icount(vm, icount, &error));
    g_assert_no_error(error);
    check_place(side, vm);
    g_assert_cmpuint(side->icount, ==, icount);
    /* Interrupts before it are still to come. */
    g_assert_cmpuint(side->passed, ==, 0);
    g_assert_false(vm_written(vm, NULL));
}

/* Any bytes that change the guest */
static void forward(struct vm *vm, unsigned vcpu, const char *request)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *answer = NULL;
    size_t n;

    answer = vm_forward(vm, vcpu, request, strlen(request), &n, &error);
    g_assert_no_error(error);
    g_assert_nonnull(answer);
}

static void write_pc(struct vm *vm, unsigned vcpu)
{
    forward(vm, vcpu, "P10=7856341200000000");
}

/* Some place between the begin and the end, before or after interrupts */
static struct vm_place random_place(struct vm_side *side, struct vm *vm)
{
    go_icount(side, vm, g_test_rand_int_range(0, VM_SIDE_END - 50));
    for (int n = g_test_rand_int_range(0, 4); n; n--) {
        step(side, vm, side->turns[side->icount]);
    }
    return *vm_place(vm);
}

static void test_places(struct vm_side *side, struct vm *vm)
{
    unsigned gos;

    check_place(side, vm);
    go_icount(side, vm, 1);
    go_icount(side, vm, 0);
    /* Where it has only gone to, nothing has passed. */
    gos = side->gos;
    go_icount(side, vm, 0);
    g_assert_cmpuint(side->gos, ==, gos + 1);
    for (unsigned i = 0; i < 200; i++) {
        const struct vm_place place = random_place(side, vm);
        unsigned passed = side->passed;
        uint64_t icount = side->icount;

        gos = side->gos;
        go(side, vm, &place);
        g_assert_cmpuint(side->gos, ==, gos);
        switch (g_test_rand_int_range(0, 4)) {
        case 0:
            random_place(side, vm);
            break;
        case 1:
            step(side, vm, side->turns[side->icount]);
            break;
        case 2:
            write_pc(vm, g_test_rand_int_range(0, side->vcpus));
            break;
        default:
            go_icount(side, vm, place.icount);
            break;
        }
        go(side, vm, &place);
        g_assert_cmpuint(side->icount, ==, icount);
        g_assert_cmpuint(side->passed, ==, passed);
    }
}

/* The same of one vCPU, where others can be anywhere */
static void test_vcpu(struct vm_side *side, struct vm *vm)
{
    for (unsigned i = 0; i < 200; i++) {
        const struct vm_place place = random_place(side, vm);
        unsigned passed = side->passed, gos = side->gos;
        g_autoptr(GError) error = NULL;

        g_assert_true(vm_go_vcpu(vm, place.icount, place.vcpu, place.pc,
                                 &error));
        g_assert_cmpuint(side->gos, ==, gos);
        if (g_test_rand_bit()) {
            write_pc(vm, g_test_rand_int_range(0, side->vcpus));
        } else {
            random_place(side, vm);
        }
        g_assert_true(vm_go_vcpu(vm, place.icount, place.vcpu, place.pc,
                                 &error));
        g_assert_no_error(error);
        check_place(side, vm);
        g_assert_cmpuint(side->icount, ==, place.icount);
        g_assert_cmpuint(side->passed, ==, passed);
        g_assert_false(vm_written(vm, NULL));
    }
}

/* Each vCPU executes one instruction when it is its turn. */
static void test_step(struct vm_side *side, struct vm *vm)
{
    for (unsigned i = 0; i < 60; i++) {
        unsigned vcpu = g_test_rand_int_range(0, side->vcpus);
        uint64_t n = side->icount;
        unsigned passed = side->passed;

        forward(vm, g_test_rand_int_range(0, side->vcpus), "qC");
        while (side->turns[n] != vcpu) {
            n++;
            passed = 0;
        }
        step(side, vm, vcpu);
        if (passed < vm_side_interrupts(n)) {
            g_assert_cmpuint(side->icount, ==, n);
            g_assert_cmpuint(side->passed, ==, passed + 1);
        } else {
            g_assert_cmpuint(side->icount, ==, n + 1);
        }
    }
}

/* A place that the replay does not come by is no other one. */
static void test_elsewhere(struct vm_side *side, struct vm *vm)
{
    struct vm_place place = random_place(side, vm);
    g_autoptr(GError) error = NULL;
    unsigned vcpu;

    place.pcs[side->vcpus - 1] ^= 0x100000;
    g_assert_false(vm_go(vm, &place, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    check_place(side, vm);
    g_clear_error(&error);
    place = random_place(side, vm);
    g_assert_false(vm_go_vcpu(vm, place.icount, 0, 1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_clear_error(&error);
    /* Nor is the next instruction. */
    go_icount(side, vm, 20);
    vcpu = vm_place(vm)->vcpu;
    step(side, vm, vcpu);
    g_assert_cmpuint(side->icount, ==, 21);
    g_assert_false(vm_go_vcpu(vm, 20, vcpu, vm_place(vm)->pcs[vcpu], &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
}

/* After a way that has failed, it is where it is. */
static void test_failed(struct vm_side *side, struct vm *vm)
{
    g_autoptr(GError) error = NULL;

    go_icount(side, vm, 50);
    g_assert_false(vm_go_icount(vm, VM_SIDE_END, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    check_place(side, vm);
    g_assert_cmpuint(vm_place(vm)->icount, ==, VM_SIDE_END - 1);
    g_clear_error(&error);
    side->fails = true;
    g_assert_false(vm_go_icount(vm, 5, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_clear_error(&error);
    g_assert_false(vm_find(vm, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
}

/* What changes the guest, and what does not */
static void test_written(struct vm_side *side, struct vm *vm)
{
    unsigned other = (side->turns[20] + 1) % side->vcpus, vcpu = 99;

    go_icount(side, vm, 20);
    g_assert_false(vm_written(vm, NULL));
    forward(vm, 1, "p0");
    forward(vm, 1, "m1000,8");
    forward(vm, 1, "g");
    forward(vm, 1, "qC");
    g_assert_false(vm_written(vm, NULL));
    forward(vm, 1, "M1000,1:00");
    g_assert_true(vm_written(vm, &vcpu));
    g_assert_cmpuint(vcpu, ==, vm_place(vm)->vcpu);
    forward(vm, other, "P0=00");
    g_assert_true(vm_written(vm, &vcpu));
    g_assert_cmpuint(vcpu, ==, other);
    forward(vm, side->turns[20], "X1000,1:0");
    g_assert_true(vm_written(vm, &vcpu));
    g_assert_cmpuint(vcpu, ==, other);
    go_icount(side, vm, 20);
    g_assert_false(vm_written(vm, &vcpu));
    g_assert_cmpuint(vcpu, ==, vm_place(vm)->vcpu);
    forward(vm, 1, "X1000,1:0");
    g_assert_true(vm_written(vm, NULL));
    go_icount(side, vm, 30);
    forward(vm, 0, "G00");
    g_assert_true(vm_written(vm, &vcpu));
    g_assert_cmpuint(vcpu, ==, 0);
}

/* Requests are about the vCPU that is meant, and not said twice. */
static void test_forward(struct vm_side *side, struct vm *vm)
{
    uint64_t number;
    bool known;

    for (unsigned i = 0; i < 50; i++) {
        unsigned vcpu = g_test_rand_int_range(0, side->vcpus);
        g_autofree char *answer = vm_number(vm, vcpu, VM_READ_STACK, &number,
                                            &known, NULL);

        g_assert_nonnull(answer);
        g_assert_true(known);
        g_assert_cmphex(number, ==, 0x7000 + vcpu);
        g_string_truncate(side->asked, 0);
        forward(vm, vcpu, "qC");
        g_assert_cmpstr(side->asked->str, ==, " qC");
    }
}

/* Numbers that are none, or have other sizes */
static void test_number(struct vm_side *side, struct vm *vm)
{
    static const char *const bad[] = {
        "", "E14", "12", "00000000000000", "000000000000000000",
        "xxxxxxxxxxxxxxxx",
    };
    uint64_t number;
    bool known;

    for (unsigned i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autofree char *answer = NULL;

        vm_side_answer(side, "p7", bad[i]);
        answer = vm_number(vm, 0, VM_READ_STACK, &number, &known, NULL);
        g_assert_cmpstr(answer, ==, bad[i]);
        g_assert_false(known);
    }
}

static void test_divert(struct vm_side *side, struct vm *vm)
{
    g_autofree char *answer = NULL;
    g_autoptr(GError) error = NULL;
    uint64_t number;
    bool known;

    go_icount(side, vm, 20);
    g_assert_false(vm_diverted(vm));
    side->fails = true;
    g_assert_false(vm_divert(vm, 1, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_clear_error(&error);
    g_assert_false(vm_diverted(vm));
    side->fails = false;
    g_assert_true(vm_divert(vm, 1, &error));
    g_assert_true(vm_divert(vm, 1, &error));
    g_assert_true(vm_diverted(vm));
    g_assert_cmpuint(side->diverts, ==, 2);
    forward(vm, 1, "qC");
    /* It can be about another one whenever that has stopped. */
    side->selected = 0;
    answer = vm_number(vm, 1, VM_READ_STACK, &number, &known, &error);
    g_assert_true(known);
    g_assert_cmphex(number, ==, 0x7001);
    go_icount(side, vm, 40);
    g_assert_false(vm_diverted(vm));
    g_assert_false(side->diverted);
}

static void check_watch(const char *said, const char *want)
{
    g_autofree char *watch = vm_watchpoint(said);

    g_assert_cmpstr(watch, ==, want);
}

static void test_watchpoint(void)
{
    check_watch("T05thread:01;", NULL);
    check_watch("T05watch:5000;thread:01;", "watch:5000");
    check_watch("T05thread:01;rwatch:ffffffff81000000;",
                "rwatch:ffffffff81000000");
    check_watch("T05awatch:0", "awatch:0");
    check_watch("watch:12", "watch:12");
    check_watch("T05xwatch:12", "watch:12");
    check_watch("T05watch:", "watch:");
    check_watch("T05watch:\033[1m", "watch:");
    check_watch("", NULL);
}

/* @n breakpoints of some, with some conditions */
static GHashTable *random_breakpoints(void)
{
    static const char *const conditions[] = { "", ";X1,00", ";X2,0000" };
    GHashTable *b = breakpoints_new();

    for (unsigned i = 0; i < 6; i++) {
        g_autofree char *key = breakpoints_key(i % 3, 0x1000 + i, 1);

        if (g_test_rand_bit()) {
            breakpoints_set(b, key, conditions[g_test_rand_int_range(0, 3)]);
        }
    }
    return b;
}

static void check_inserted(const struct vm_side *side, GHashTable *want)
{
    GHashTableIter iter;
    gpointer key, conditions;

    g_assert_cmpuint(g_hash_table_size(side->breakpoints), ==,
                     g_hash_table_size(want));
    g_hash_table_iter_init(&iter, want);
    while (g_hash_table_iter_next(&iter, &key, &conditions)) {
        g_assert_cmpstr(g_hash_table_lookup(side->breakpoints, key), ==,
                        conditions);
    }
}

/* What is inserted is what is wanted, and nothing is asked for twice. */
static void test_breakpoints(struct vm_side *side, struct vm *vm)
{
    g_autoptr(GError) error = NULL;

    for (unsigned i = 0; i < 200; i++) {
        g_autoptr(GHashTable) want = random_breakpoints();

        g_assert_true(vm_set_breakpoints(vm, want, &error));
        g_assert_no_error(error);
        check_inserted(side, want);
        g_string_truncate(side->asked, 0);
        g_assert_true(vm_set_breakpoints(vm, want, &error));
        g_assert_cmpstr(side->asked->str, ==, "");
        if (i % 9 == 0) {
            g_autofree char *hit = NULL;

            g_assert_true(vm_step_watched(vm, want, &hit, &error));
            check_inserted(side, want);
            check_place(side, vm);
        }
        if (i % 5 == 0) {
            go_icount(side, vm, i);
            g_assert_cmpuint(g_hash_table_size(side->breakpoints), ==, 0);
        }
    }
}

/* What QEMU refuses is not taken for inserted. */
static void test_refused(struct vm_side *side, struct vm *vm)
{
    g_autoptr(GHashTable) want = breakpoints_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *bad = NULL, *good = NULL, *again = NULL, *gone = NULL;

    vm_side_answer(side, "Z", "E22");
    bad = vm_breakpoint(vm, "0,1000,1", "", &error);
    g_assert_cmpstr(bad, ==, "E22");
    breakpoints_set(want, "0,1000,1", "");
    g_assert_false(vm_set_breakpoints(vm, want, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    g_clear_error(&error);
    g_hash_table_remove_all(side->odd);
    good = vm_breakpoint(vm, "0,1000,1", "", &error);
    g_assert_cmpstr(good, ==, "OK");
    check_inserted(side, want);
    g_string_truncate(side->asked, 0);
    again = vm_breakpoint(vm, "0,1000,1", "", &error);
    g_assert_cmpstr(again, ==, "OK");
    gone = vm_breakpoint(vm, "0,2000,1", NULL, &error);
    g_assert_cmpstr(gone, ==, "OK");
    g_assert_cmpstr(side->asked->str, ==, "");
}

/* A breakpoint where a vCPU is, by what QEMU says of its conditions */
static void test_at_breakpoint(struct vm_side *side, struct vm *vm)
{
    for (unsigned type = 0; type < 3; type++) {
        g_autoptr(GHashTable) b = breakpoints_new();
        g_autofree char *key = NULL, *other = NULL;

        go_icount(side, vm, 20);
        g_assert_false(vm_at_breakpoint(vm, 1, b));
        other = breakpoints_key(type, vm_side_pc(side, 0), 1);
        breakpoints_set(b, other, ";X1,00");
        key = breakpoints_key(type, vm_side_pc(side, 1), 1);
        g_string_truncate(side->asked, 0);
        g_assert_false(vm_at_breakpoint(vm, 1, b));
        g_assert_cmpstr(side->asked->str, ==, "");
        breakpoints_set(b, key, "");
        g_assert_cmpint(vm_at_breakpoint(vm, 1, b), ==, type < 2);
        g_assert_cmpstr(side->asked->str, ==, "");

        breakpoints_set(b, key, ";X1,00");
        vm_side_answer(side, "qqemu.AtBreakpoint", "0");
        g_assert_false(vm_at_breakpoint(vm, 1, b));
        vm_side_answer(side, "qqemu.AtBreakpoint", "1");
        g_assert_cmpint(vm_at_breakpoint(vm, 1, b), ==, type < 2);
        g_hash_table_remove_all(side->odd);
        /* One that does not know: gdb evaluates it. */
        g_assert_cmpint(vm_at_breakpoint(vm, 1, b), ==, type < 2);
        if (type < 2) {
            check_inserted(side, b);
        }
    }
}

static void test_hit(struct vm_side *side, struct vm *vm)
{
    g_autoptr(GHashTable) none = breakpoints_new();
    g_autoptr(GError) error = NULL;
    g_autofree char *hit = NULL, *other = NULL;

    go_icount(side, vm, 12);
    g_assert_true(vm_step_watched(vm, none, &hit, &error));
    g_assert_cmpuint(side->icount, ==, 13);
    g_assert_cmpstr(hit, ==, "rwatch:5f");
    g_assert_true(vm_step_watched(vm, none, &other, &error));
    g_assert_null(other);
}

/* What takes long ends when nobody wants it any more. */
static void test_interrupted(struct vm_side *side, struct vm *vm)
{
    g_autoptr(GError) error = NULL;

    side->busy = side->stops = true;
    g_assert_false(vm_goes_on(vm));
    g_assert_false(vm_step(vm, 0, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CANCELLED);
    check_place(side, vm);
    side->busy = side->stops = false;
    g_assert_true(vm_goes_on(vm));
    step(side, vm, 0);
}

/* A guest that ends, or a stub that says anything */
static void test_ends(struct vm_side *side, struct vm *vm)
{
    static const char *const ends[] = { "W00", "", "E01", "S05" };

    for (unsigned i = 0; i < G_N_ELEMENTS(ends); i++) {
        g_autoptr(GError) error = NULL;

        vm_side_answer(side, "vCont", ends[i]);
        g_assert_false(vm_step(vm, 0, &error));
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    }
}

static void check_leave(struct vm_side *side, struct vm *vm, uint64_t end,
                        uint64_t want)
{
    g_autoptr(GError) error = NULL;

    go_icount(side, vm, 250);
    g_assert_true(vm_leave_search(vm, &end, &error));
    g_assert_cmpuint(end, ==, want);
    /* At the state that is kept, by a step back */
    g_assert_cmpuint(side->icount, ==, 200);
    g_assert_nonnull(strstr(side->asked->str, " bs"));
    check_place(side, vm);
}

/* The part in which nothing was found is not searched again. */
static void test_leave_search(struct vm_side *side, struct vm *vm)
{
    g_autoptr(GError) error = NULL;
    uint64_t end = 400;

    check_leave(side, vm, 500, 301);
    check_leave(side, vm, 301, 301);
    check_leave(side, vm, 300, 300);
    check_leave(side, vm, 260, 260);
    side->fails = true;
    g_assert_false(vm_leave_search(vm, &end, &error));
    g_assert_cmpuint(end, ==, 400);
}

/* What a replay cannot do, it does not do. */
static void test_lacks(struct vm_side *side, struct vm *vm)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *none = vm_checkpoints(vm, &error);
    uint64_t icount;

    g_assert_cmpstr(none, ==, "");
    g_assert_false(vm_output(vm, NULL, &icount, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    g_assert_cmpstr(vm_features(vm), ==, "PacketSize=1000;vContSupported+");
    g_assert_true(vm_turns(vm) == side->of_log);
    g_assert_nonnull(vm_stub(vm));
}

/* A stub that says something else at the beginning; NULL: it is right */
static void check_new(unsigned vcpus, const char *request, const char *answer,
                      bool ok)
{
    g_autoptr(GError) error = NULL;
    struct vm_side side;
    struct vm *vm;

    vm_side_begin(&side, vcpus);
    vm_side_answer(&side, request, answer);
    vm = vm_side_vm(&side, &error);
    if (ok) {
        g_assert_no_error(error);
    } else {
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_PROTOCOL);
    }
    vm_free(vm);
    vm_side_end(&side);
}

static void test_new(void)
{
    g_autoptr(GString) many = g_string_new("m01");

    check_new(1, "?", "S05", false);
    check_new(1, "?", "", false);
    check_new(1, VM_READ_PC, "12", false);
    check_new(1, VM_READ_PC, "E01", false);
    check_new(1, "qSupported", "", true);
    /* Nobody asks for the threads of one vCPU. */
    check_new(1, "qfThreadInfo", "l", true);
    check_new(3, "qfThreadInfo", "l", false);
    check_new(3, "qfThreadInfo", "", false);
    check_new(3, "qfThreadInfo", "m", false);
    check_new(3, "qfThreadInfo", "m02", false);
    check_new(3, "qfThreadInfo", "m01,03", false);
    check_new(3, "qfThreadInfo", "m01,", false);
    check_new(3, "qfThreadInfo", "m01,02,03", true);
    check_new(3, "qsThreadInfo", "m01", false);
    check_new(3, "Hg", "E22", false);
    for (unsigned i = 2; i <= VCPU_COUNT_MAX + 1; i++) {
        g_string_append_printf(many, ",%x", i);
    }
    check_new(3, "qfThreadInfo", many->str, false);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/vm/new", test_new);
    g_test_add_func("/vm/watchpoint", test_watchpoint);
    add_test("/vm/places", VM_SIDE_VCPUS, test_places);
    add_test("/vm/places-one", 1, test_places);
    add_test("/vm/vcpu", VM_SIDE_VCPUS, test_vcpu);
    add_test("/vm/step", VM_SIDE_VCPUS, test_step);
    add_test("/vm/elsewhere", VM_SIDE_VCPUS, test_elsewhere);
    add_test("/vm/failed", VM_SIDE_VCPUS, test_failed);
    add_test("/vm/written", VM_SIDE_VCPUS, test_written);
    add_test("/vm/forward", VM_SIDE_VCPUS, test_forward);
    add_test("/vm/number", 1, test_number);
    add_test("/vm/divert", VM_SIDE_VCPUS, test_divert);
    add_test("/vm/breakpoints", VM_SIDE_VCPUS, test_breakpoints);
    add_test("/vm/refused", 1, test_refused);
    add_test("/vm/at-breakpoint", VM_SIDE_VCPUS, test_at_breakpoint);
    add_test("/vm/hit", 1, test_hit);
    add_test("/vm/interrupted", VM_SIDE_VCPUS, test_interrupted);
    add_test("/vm/ends", 1, test_ends);
    add_test("/vm/leave-search", VM_SIDE_VCPUS, test_leave_search);
    add_test("/vm/lacks", VM_SIDE_VCPUS, test_lacks);
    return g_test_run();
}
