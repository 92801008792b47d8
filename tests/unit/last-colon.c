/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests of last-colon.c: names of processes, and of functions in several
 * languages
 */

#include <glib.h>
#include <string.h>

#include "util/last-colon.h"

/* Any of these can come before any of those. */
static const char *const processes[] = {
    "nginx", "kernel", "100", "kworker/0:1", "(sd-pam)", "a(b", "a)b", "a<b",
    "a>b", "[x:y]", "a,b", "it's", "a::b", "{", "web:kernel", "operator<",
    "'", "a b", "::",
};

static const char *const functions[] = {
    "main", "copy.isra.0", "_ZN2ns1fEic", "0x401000", "ns::f",
    "ns::f(int, char)", "::f", "std::f[abi:cxx11](int)",
    "main::{lambda()#1}::operator()", "main::{lambda(char, int)#1}::f",
    "(anonymous namespace)::f", "f((anonymous namespace)::A<int, char>)",
    "<A as b::C>::d", "<dyn Fn(u8, u8) -> u8 as b::C>::d",
    "f::<fn(u8) -> u8, 3>", "f::<for<'a, 'b> fn(&'a u8, &'b u8)>",
    "f::<':'>", "f::<'<'>", "f::<'\\''>", "f::<','>", "main.(*T).run",
    "ns::A::operator<", "ns::A::operator>", "ns::A::operator<<",
    "ns::A::operator>>", "ns::A::operator->", "ns::A::operator->*",
    "ns::A::operator<=>", "ns::A::operator>=", "ns::A::operator>>=",
    "ns::A::operator,", "ns::A::operator,(ns::B const&, int)",
    "ns::A::operator()", "ns::A::operator()(int, char) const",
    "ns::A::operator[]", "ns::A::operator std::pair<int, char>()",
    "operator<< <long, char>", "operator-", "ns::A::~A()",
    "std::map<int, std::less<int> >::at(int const&)",
    "f<(x)?(1) : (2)>", "f<(E)1, ((x)>(y))>(int)", "f<&A::operator< >(int)",
    "ns::myoperator<a, b>", "std::enable_if<(a<b), int>::type f<int>(int)",
};

static void test_processes(void)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(processes); i++) {
        for (unsigned k = 0; k < G_N_ELEMENTS(functions); k++) {
            g_autofree char *text = g_strdup_printf("%s:%s", processes[i],
                                                    functions[k]);
            const char *colon = last_colon(text);

            /* "a" and "::b", and no process "a:" that has b */
            if (g_str_has_suffix(processes[i], ":")) {
                continue;
            }
            g_test_message("%s", text);
            g_assert_true(colon == text + strlen(processes[i]));
        }
    }
}

/* What has no process has no such colon. */
static void test_alone(void)
{
    for (unsigned k = 0; k < G_N_ELEMENTS(functions); k++) {
        g_test_message("%s", functions[k]);
        g_assert_null(last_colon(functions[k]));
        g_assert_true(last_colon_closed(functions[k]));
    }
    g_assert_null(last_colon(""));
    g_assert_null(last_colon("::"));
    g_assert_false(last_colon_closed("f(int"));
    g_assert_false(last_colon_closed("f)(int"));
    g_assert_false(last_colon_closed("f<int"));
    g_assert_false(last_colon_closed("f>"));
}

static void test_odd(void)
{
    static const struct {
        const char *text;
        int colon;              /* where; -1: none */
    } odd[] = {
        { ":", 0 }, { ":f", 0 }, { "a:", 1 }, { "a:::f", 1 }, { "a::::f", -1 },
        { "a:f(", -1 }, { "a:f<int", -1 }, { "a:f)", -1 }, { "a:f>", -1 },
        { "a:b:f)", -1 }, { "a:f(b:c)", 1 }, { "a:f(b:c", 5 }, { "a:'", 1 },
        { "a:operator", 1 }, { "a:f'\\", 1 },
    };

    for (unsigned i = 0; i < G_N_ELEMENTS(odd); i++) {
        /* Nothing follows it in memory. */
        g_autofree char *text = g_memdup2(odd[i].text,
                                          strlen(odd[i].text) + 1);
        const char *colon = last_colon(text);

        g_test_message("%s", text);
        g_assert_cmpint(colon ? colon - text : -1, ==, odd[i].colon);
    }
}

static void test_comma(void)
{
    for (unsigned k = 0; k < G_N_ELEMENTS(functions); k++) {
        g_autofree char *text = g_strdup_printf("%s,hits=3,do=stop",
                                                functions[k]);

        g_test_message("%s", text);
        g_assert_null(last_colon_comma(functions[k]));
        g_assert_true(last_colon_comma(text) == text + strlen(functions[k]));
    }
    g_assert_null(last_colon_comma(""));
    g_assert_null(last_colon_comma("f(int,"));
    g_assert_null(last_colon_comma("f),"));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/last-colon/processes", test_processes);
    g_test_add_func("/last-colon/alone", test_alone);
    g_test_add_func("/last-colon/odd", test_odd);
    g_test_add_func("/last-colon/comma", test_comma);
    return g_test_run();
}
