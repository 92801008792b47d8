/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For what a debugger lets a guest run that it has written to
 */

#include <string.h>

#include "gdb/breakpoints.h"
#include "gdb/diversion.h"
#include "vm-side.h"

/* Where functions return to, by what is on the stack; see vm-side.c */
#define BACK    0xbac0

struct scene {
    struct vm_side side;
    struct vm *vm;
    GHashTable *breakpoints;
    struct vm_place place;
};

static void begin(struct scene *s)
{
    g_autoptr(GError) error = NULL;

    vm_side_begin(&s->side, VM_SIDE_VCPUS);
    s->vm = vm_side_vm(&s->side, &error);
    g_assert_no_error(error);
    g_assert_true(vm_go_icount(s->vm, 20, &error));
    s->place = *vm_place(s->vm);
    s->breakpoints = breakpoints_new();
    g_string_truncate(s->side.asked, 0);
}

static void end(struct scene *s)
{
    vm_free(s->vm);
    vm_side_end(&s->side);
    g_hash_table_unref(s->breakpoints);
}

static void forward(struct scene *s, unsigned vcpu, const char *request)
{
    g_autofree char *answer = NULL;
    size_t n;

    answer = vm_forward(s->vm, vcpu, request, strlen(request), &n, NULL);
    g_assert_nonnull(answer);
}

static void add_breakpoint(struct scene *s, unsigned type, uint64_t address)
{
    g_autofree char *key = breakpoints_key(type, address, 1);

    breakpoints_set(s->breakpoints, key, "");
}

/* @vcpu: that executes it; -1: none is said */
static void check(struct scene *s, enum diversion want, int vcpu)
{
    enum diversion diversion = DIVERSION_ELSEWHERE;
    g_autoptr(GError) error = NULL;
    unsigned got = 99;

    g_assert_true(diversion_find(s->vm, &s->place, s->breakpoints, &diversion,
                                 &got, &error));
    g_assert_no_error(error);
    g_assert_cmpint(diversion, ==, want);
    if (vcpu >= 0) {
        g_assert_cmpuint(got, ==, vcpu);
    }
}

/* Registers other than the pc, and memory, do not change what it does next. */
static void test_none(void)
{
    struct scene s;

    begin(&s);
    check(&s, DIVERSION_NONE, -1);
    g_assert_cmpstr(s.side.asked->str, ==, "");
    add_breakpoint(&s, 0, BACK);
    forward(&s, 1, "M1000,1:00");
    check(&s, DIVERSION_NONE, -1);
    forward(&s, 1, "P0=00");
    check(&s, DIVERSION_NONE, 1);
    end(&s);
}

/* A breakpoint where it returns to makes it a call: of the debugger's kind. */
static void test_call(void)
{
    for (unsigned vcpu = 0; vcpu < VM_SIDE_VCPUS; vcpu++) {
        struct scene s;

        begin(&s);
        forward(&s, vcpu, "P10=3412000000000000");
        check(&s, DIVERSION_ELSEWHERE, vcpu);
        add_breakpoint(&s, 0, BACK + 1);
        add_breakpoint(&s, 1, BACK);
        add_breakpoint(&s, 2, BACK);
        add_breakpoint(&s, 0, 0x1234);
        check(&s, DIVERSION_ELSEWHERE, vcpu);
        add_breakpoint(&s, 0, BACK);
        check(&s, DIVERSION_CALL, vcpu);
        end(&s);
    }
}

/* It goes on with a call that has stopped, wherever that is. */
static void test_goes_on(void)
{
    struct scene s;

    begin(&s);
    forward(&s, 2, "P10=3412000000000000");
    g_assert_true(vm_divert(s.vm, 2, NULL));
    check(&s, DIVERSION_CALL, 2);
    end(&s);
}

/* What was written is gone elsewhere. */
static void test_gone(void)
{
    struct scene s;

    begin(&s);
    forward(&s, 2, "P10=3412000000000000");
    g_assert_true(vm_go(s.vm, &s.place, NULL));
    check(&s, DIVERSION_NONE, -1);
    end(&s);
}

/* A pc that is not said is not where it was. */
static void test_unknown(void)
{
    struct scene s;

    begin(&s);
    forward(&s, 0, "P10=3412000000000000");
    s.place.pcs[0] = 0;
    vm_side_answer(&s.side, VM_READ_PC, "xxxxxxxxxxxxxxxx");
    check(&s, DIVERSION_ELSEWHERE, 0);
    end(&s);
}

/* A stack that cannot be read returns nowhere. */
static void test_unreadable(void)
{
    struct scene s;

    begin(&s);
    forward(&s, 0, "P10=3412000000000000");
    add_breakpoint(&s, 0, BACK);
    vm_side_answer(&s.side, "m", "E14");
    check(&s, DIVERSION_ELSEWHERE, 0);
    add_breakpoint(&s, 0, 0);
    check(&s, DIVERSION_ELSEWHERE, 0);
    g_hash_table_remove_all(s.side.odd);
    check(&s, DIVERSION_CALL, 0);
    vm_side_answer(&s.side, VM_READ_STACK, "E14");
    vm_side_answer(&s.side, "m", "c0ba000000000000");
    check(&s, DIVERSION_ELSEWHERE, 0);
    end(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/diversion/none", test_none);
    g_test_add_func("/diversion/call", test_call);
    g_test_add_func("/diversion/goes-on", test_goes_on);
    g_test_add_func("/diversion/gone", test_gone);
    g_test_add_func("/diversion/unknown", test_unknown);
    g_test_add_func("/diversion/unreadable", test_unreadable);
    return g_test_run();
}
