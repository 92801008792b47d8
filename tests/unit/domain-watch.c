/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens to a domain of libvirt's own driver for tests, which has one
 * that runs in no process
 */

#include <dlfcn.h>
#include <glib.h>
#include <libvirt/libvirt.h>
#include <string.h>
#include <unistd.h>

#include "libvirt/domain-watch.h"

#define URI     "test:///default"
#define LATER   50000           /* us; what comes first does not matter */

struct fixture {
    struct domain domain;
    struct domain_watch *watch;
    int pipe[2];
};

typedef int call(virDomainPtr);

/* Of libvirt, which the command does not need */
static int call_libvirt(const char *name, virDomainPtr domain)
{
    void *library = dlopen("libvirt.so.0", RTLD_LAZY);
    call *found = library ? (call *)dlsym(library, name) : NULL;

    g_assert_nonnull(found);
    return found(domain);
}

static bool begin(struct fixture *f)
{
    g_autoptr(GError) error = NULL;

    if (!domain_watch_prepare(&error)) {
        g_test_skip(error->message);
        return false;
    }
    g_assert_true(domain_watch_prepare(&error));
    domain_open(&f->domain, URI, "test", &error);
    g_assert_no_error(error);
    f->watch = domain_watch_new(&f->domain, &error);
    g_assert_no_error(error);
    g_assert_cmpint(pipe(f->pipe), ==, 0);
    return true;
}

static void end(struct fixture *f)
{
    domain_watch_free(f->watch);
    domain_close(&f->domain);
    close(f->pipe[0]);
    close(f->pipe[1]);
}

static void check_stands(struct fixture *f, bool want)
{
    g_autoptr(GError) error = NULL;
    bool stands = !want;

    g_assert_true(domain_watch_stands(f->watch, &stands, &error));
    g_assert_no_error(error);
    g_assert_true(stands == want);
}

/* Another client, at another time */
static void *stop_later(void *opaque)
{
    g_usleep(LATER);
    g_assert_cmpint(virDomainSuspend(opaque), ==, 0);
    return NULL;
}

static void *destroy_later(void *opaque)
{
    g_usleep(LATER);
    g_assert_cmpint(call_libvirt("virDomainDestroy", opaque), ==, 0);
    return NULL;
}

static void *cancel_later(void *opaque)
{
    g_usleep(LATER);
    g_assert_cmpint(write(*(int *)opaque, "x", 1), ==, 1);
    return NULL;
}

static void test_stops(void)
{
    g_autoptr(GError) error = NULL;
    struct fixture f;
    GThread *thread;

    if (!begin(&f)) {
        return;
    }
    check_stands(&f, false);
    g_assert_false(domain_watch_ran(f.watch));
    thread = g_thread_new("stop", stop_later, f.domain.domain);
    g_assert_true(domain_watch_wait(f.watch, 0, f.pipe[0], &error));
    g_assert_no_error(error);
    g_thread_join(thread);
    check_stands(&f, true);
    /* It stands already, and nothing more will happen. */
    g_assert_true(domain_watch_wait(f.watch, 0, -1, &error));
    g_assert_false(domain_watch_ran(f.watch));

    g_assert_true(domain_watch_go_on(f.watch, &error));
    check_stands(&f, false);
    g_assert_true(domain_watch_ran(f.watch));
    g_assert_false(domain_watch_ran(f.watch));
    g_assert_true(domain_watch_stop(f.watch, &error));
    check_stands(&f, true);
    g_assert_false(domain_watch_ran(f.watch));
    /* It ran in between, though it stands now. */
    g_assert_true(domain_watch_go_on(f.watch, &error));
    g_assert_true(domain_watch_stop(f.watch, &error));
    g_assert_true(domain_watch_ran(f.watch));
    g_assert_true(domain_watch_go_on(f.watch, &error));
    end(&f);
}

static void test_cancelled(void)
{
    g_autoptr(GError) error = NULL;
    struct fixture f;
    GThread *thread;
    char byte;

    if (!begin(&f)) {
        return;
    }
    for (unsigned i = 0; i < 3; i++) {
        thread = g_thread_new("cancel", cancel_later, &f.pipe[1]);
        g_assert_false(domain_watch_wait(f.watch, 0, f.pipe[0], &error));
        g_assert_true(agent_is_cancelled(error));
        g_clear_error(&error);
        g_thread_join(thread);
        g_assert_cmpint(read(f.pipe[0], &byte, 1), ==, 1);
        check_stands(&f, false);
    }
    end(&f);
}

/* Who lets go on what this process has stopped */
static void test_resumed(void)
{
    g_autoptr(GError) error = NULL;
    struct fixture f;
    GThread *thread;

    if (!begin(&f)) {
        return;
    }
    g_assert_false(domain_watch_paused(f.watch));
    /* It went on before it was stopped here. */
    g_assert_true(domain_watch_stop(f.watch, &error));
    g_assert_true(domain_watch_go_on(f.watch, &error));
    g_assert_true(domain_watch_stop(f.watch, &error));
    g_assert_true(domain_watch_paused(f.watch));
    g_assert_false(domain_watch_resumed(f.watch));
    /* The same when that is taken notice of */
    thread = g_thread_new("cancel", cancel_later, &f.pipe[1]);
    g_assert_true(domain_watch_attend(f.watch, f.pipe[0], &error));
    g_assert_no_error(error);
    g_thread_join(thread);
    /* Others let it go on, and stop it. */
    g_assert_true(domain_watch_go_on(f.watch, &error));
    g_assert_cmpint(virDomainSuspend(f.domain.domain), ==, 0);
    g_assert_true(domain_watch_ran(f.watch));
    g_assert_true(domain_watch_paused(f.watch));
    g_assert_true(domain_watch_resumed(f.watch));
    g_assert_true(domain_watch_resumed(f.watch));
    domain_watch_stops(f.watch);
    g_assert_false(domain_watch_resumed(f.watch));
    g_assert_true(domain_watch_go_on(f.watch, &error));
    g_assert_false(domain_watch_paused(f.watch));
    end(&f);
}

static void test_time(void)
{
    g_autoptr(GError) error = NULL;
    gint64 start = g_get_monotonic_time();
    struct fixture f;
    GThread *thread;

    if (!begin(&f)) {
        return;
    }
    /* Over already, soon, and more than it looks at once */
    for (gint64 us = -10; us <= 1200000; us += 600005) {
        g_assert_false(domain_watch_wait(f.watch, g_get_monotonic_time() + us,
                                         f.pipe[0], &error));
        g_assert_error(error, AGENT_ERROR, AGENT_ERROR_TIMEOUT);
        g_clear_error(&error);
    }
    g_assert_cmpint(g_get_monotonic_time() - start, >=, 1799000);
    thread = g_thread_new("stop", stop_later, f.domain.domain);
    g_assert_true(domain_watch_wait(f.watch, g_get_monotonic_time() +
                                    60 * G_USEC_PER_SEC, f.pipe[0], &error));
    g_thread_join(thread);
    g_assert_true(domain_watch_go_on(f.watch, &error));
    end(&f);
}

static void test_ends(void)
{
    g_autoptr(GError) error = NULL;
    struct fixture f;
    GThread *thread;
    bool stands;

    if (!begin(&f)) {
        return;
    }
    thread = g_thread_new("end", destroy_later, f.domain.domain);
    g_assert_false(domain_watch_wait(f.watch, 0, f.pipe[0], &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED);
    g_assert_nonnull(strstr(error->message, "<on_crash>preserve</on_crash>"));
    g_clear_error(&error);
    g_thread_join(thread);
    g_assert_false(domain_watch_stands(f.watch, &stands, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_CLOSED);
    g_assert_nonnull(strstr(error->message, "virsh start test starts it"));
    g_clear_error(&error);
    /* Each of these has libvirt's word for it. */
    g_assert_false(domain_watch_stop(f.watch, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_clear_error(&error);
    g_assert_false(domain_watch_go_on(f.watch, &error));
    g_assert_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM);
    g_assert_true(domain_watch_ran(f.watch));
    end(&f);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/domain-watch/stops", test_stops);
    g_test_add_func("/domain-watch/cancelled", test_cancelled);
    g_test_add_func("/domain-watch/resumed", test_resumed);
    g_test_add_func("/domain-watch/time", test_time);
    g_test_add_func("/domain-watch/ends", test_ends);
    return g_test_run();
}
