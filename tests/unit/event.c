/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What people look for: what texts mean
 */

#include <string.h>

#include "find/event.h"
#include "find/within.h"

static void check(const char *text, enum find_event_kind kind, const char *name)
{
    g_autoptr(GError) error = NULL;
    struct find_event w;

    find_event_parse(text, &w, &error);
    g_assert_no_error(error);
    g_assert_cmpint(w.kind, ==, kind);
    g_assert_cmpstr(w.name, ==, name);
    find_event_clear(&w);
}

static void test_parse(void)
{
    struct find_event w;

    check("panic", FIND_EVENT_FUNCTION, NULL);
    check("my prog:main", FIND_EVENT_FUNCTION, NULL);
    check("syscalls", FIND_EVENT_FUNCTION, NULL);
    check("panic#1", FIND_EVENT_PLACE, NULL);
    check("first panic", FIND_EVENT_PLACE, NULL);
    check("last nginx:handler", FIND_EVENT_PLACE, NULL);
    check("last exit of sh", FIND_EVENT_PLACE, NULL);
    check("@7", FIND_EVENT_PLACE, NULL);
    check("1.5s", FIND_EVENT_PLACE, NULL);
    check("mark:build begins", FIND_EVENT_MARK, NULL);
    check("mark:", FIND_EVENT_MARK, NULL);
    check("mark:a#b=5", FIND_EVENT_MARK, NULL);
    check("mark:a#1", FIND_EVENT_PLACE, NULL);
    check("first mark:a", FIND_EVENT_PLACE, NULL);
    check("switch", FIND_EVENT_SWITCH, NULL);
    check("switch to my prog", FIND_EVENT_SWITCH, "my prog");
    check("switch blocked", FIND_EVENT_SWITCH, NULL);
    check("wake", FIND_EVENT_WAKE, NULL);
    check("wake kworker/0:1", FIND_EVENT_WAKE, "kworker/0:1");
    check("wake 12", FIND_EVENT_WAKE, "12");
    check("wake by my prog", FIND_EVENT_WAKE, NULL);
    check("wakes", FIND_EVENT_FUNCTION, NULL);
    check("syscall", FIND_EVENT_SYSCALL, NULL);
    check("syscall  openat", FIND_EVENT_SYSCALL, "openat");
    check("interrupt 0xec", FIND_EVENT_INTERRUPT, "0xec");
    check("exception #PF", FIND_EVENT_EXCEPTION, "#PF");
    g_assert_true(find_event_parse("*0xffffffff81000000", &w, NULL));
    g_assert_cmpint(w.kind, ==, FIND_EVENT_INSTRUCTION);
    g_assert_cmpuint(w.address, ==, 0xffffffff81000000);
}

/* Who leaves or wakes, and why */
static void test_from(void)
{
    static const struct {
        const char *text;
        const char *name;
        const char *from;
        enum switch_why why;
        bool is_from;
    } texts[] = {
        { "switch", NULL, NULL, SWITCH_ANY, false },
        { "switch to sh", "sh", NULL, SWITCH_ANY, false },
        { "switch from my prog", NULL, "my prog", SWITCH_ANY, true },
        { "switch preempted", NULL, NULL, SWITCH_PREEMPTED, true },
        { "switch blocked from sh", NULL, "sh", SWITCH_BLOCKED, true },
        { "switch dead  to 0", "0", NULL, SWITCH_DEAD, false },
        { "wake", NULL, NULL, SWITCH_ANY, false },
        { "wake sh", "sh", NULL, SWITCH_ANY, false },
        { "wake by sh", NULL, "sh", SWITCH_ANY, true },
        { "syscall read", "read", NULL, SWITCH_ANY, false },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(texts); i++) {
        struct find_event w;

        g_assert_true(find_event_parse(texts[i].text, &w, NULL));
        g_assert_cmpstr(w.name, ==, texts[i].name);
        g_assert_cmpstr(w.from, ==, texts[i].from);
        g_assert_cmpint(w.why, ==, texts[i].why);
        g_assert_true(find_event_is_from(&w) == texts[i].is_from);
        find_event_clear(&w);
    }
}

static void test_wrong(void)
{
    static const char *const wrong[] = {
        "", "*", "*x", "*12x", "*-1", "* 12", "switch sh", "switch to",
        "switch to ", "switch from", "switch dead sh", "switch blocked to",
        "wake by", "wake by ", "a b", "1:", "panic#0",
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        struct find_event w;

        if (find_event_parse(wrong[i], &w, &error)) {
            g_error("'%s' is taken", wrong[i]);
        }
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
        find_event_clear(&w);
    }
}

static void test_inside(void)
{
    static const char *const wrong[] = {
        "", "cpu", "cpu 0", "cpu 0: in ", "cpu x: in f", "cpu 0 in f",
        "cpu 99999: in f", "cpu 0: at f", "cpu 0: in a b", "cpu -1: in f",
    };
    g_autofree char *process = NULL, *function = NULL;
    unsigned vcpu;

    g_assert_true(within_parse("cpu 12: in my prog:main", &vcpu, &process,
                               &function, NULL));
    g_assert_cmpuint(vcpu, ==, 12);
    g_assert_cmpstr(process, ==, "my prog");
    g_assert_cmpstr(function, ==, "main");
    for (unsigned i = 0; i < G_N_ELEMENTS(wrong); i++) {
        g_autoptr(GError) error = NULL;
        char *p, *f;

        if (within_parse(wrong[i], &vcpu, &p, &f, &error)) {
            g_error("'%s' is taken", wrong[i]);
        }
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_COMMAND);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/parse", test_parse);
    g_test_add_func("/from", test_from);
    g_test_add_func("/wrong", test_wrong);
    g_test_add_func("/inside", test_inside);
    return g_test_run();
}
