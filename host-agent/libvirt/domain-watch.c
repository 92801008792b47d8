/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a domain run: see domain-watch.h
 */

#include <libvirt/libvirt.h>
#include <string.h>

#include "libvirt/domain-watch.h"
#include "libvirt/load.h"
#include "util/agent-error.h"

/* Until it is asked whether libvirt is there still */
#define LOOK_MS     1000
/* Events of what happened before an answer are there by then. */
#define EVENTS_MS   100

enum { LIFECYCLE, REBOOT, CALLBACKS };

struct domain_watch {
    virDomainPtr domain;
    virConnectPtr connection;
    int callbacks[CALLBACKS];   /* -1: none */
    int timer;
    bool stands;
    bool ended;
    bool ran;
    bool suspended;             /* by whomever, since domain_watch_stops() */
    bool resumed;               /* after that */
    bool cancelled;
    bool news;                  /* any of these, or time is over */
};

#define name_of(w)  virDomainGetName((w)->domain)

static bool fail_with_libvirt(struct domain_watch *w, GError **error)
{
    return agent_fail(error, AGENT_ERROR_SYSTEM, "%s: %s", name_of(w),
                      domain_last_error());
}

bool domain_watch_prepare(GError **error)
{
    static bool prepared;

    if (prepared || !libvirt_load(error)) {
        return prepared;
    }
    if (virEventRegisterDefaultImpl() < 0) {
        return agent_fail(error, AGENT_ERROR_SYSTEM, "libvirt: %s",
                          domain_last_error());
    }
    prepared = true;
    return true;
}

static int on_lifecycle(virConnectPtr connection, virDomainPtr domain,
                        int event, int detail, void *opaque)
{
    struct domain_watch *w = opaque;

    w->news = true;
    switch (event) {
    case VIR_DOMAIN_EVENT_SUSPENDED:
    case VIR_DOMAIN_EVENT_CRASHED:
        w->stands = w->suspended = true;
        break;
    case VIR_DOMAIN_EVENT_STARTED:
    case VIR_DOMAIN_EVENT_RESUMED:
        w->stands = false;
        w->ran = true;
        w->resumed |= w->suspended;
        break;
    case VIR_DOMAIN_EVENT_STOPPED:
        w->ended = true;
        break;
    }
    return 0;
}

static void on_reboot(virConnectPtr connection, virDomainPtr domain,
                      void *opaque)
{
    struct domain_watch *w = opaque;

    w->ran = w->news = true;
}

static void on_time(int timer, void *opaque)
{
    ((struct domain_watch *)opaque)->news = true;
}

static void on_cancel(int watch, int fd, int events, void *opaque)
{
    struct domain_watch *w = opaque;

    w->cancelled = w->news = true;
}

struct domain_watch *domain_watch_new(struct domain *d, GError **error)
{
    struct domain_watch *w = g_new0(struct domain_watch, 1);

    w->domain = d->domain;
    w->connection = d->connection;
    w->timer = virEventAddTimeout(-1, on_time, w, NULL);
    w->callbacks[LIFECYCLE] = virConnectDomainEventRegisterAny(
        w->connection, w->domain, VIR_DOMAIN_EVENT_ID_LIFECYCLE,
        VIR_DOMAIN_EVENT_CALLBACK(on_lifecycle), w, NULL);
    w->callbacks[REBOOT] = virConnectDomainEventRegisterAny(
        w->connection, w->domain, VIR_DOMAIN_EVENT_ID_REBOOT,
        VIR_DOMAIN_EVENT_CALLBACK(on_reboot), w, NULL);
    if (w->timer < 0 || w->callbacks[LIFECYCLE] < 0 ||
        w->callbacks[REBOOT] < 0) {
        fail_with_libvirt(w, error);
        g_clear_pointer(&w, domain_watch_free);
    }
    return w;
}

void domain_watch_free(struct domain_watch *w)
{
    if (!w) {
        return;
    }
    for (unsigned i = 0; i < CALLBACKS; i++) {
        if (w->callbacks[i] >= 0) {
            virConnectDomainEventDeregisterAny(w->connection, w->callbacks[i]);
        }
    }
    if (w->timer >= 0) {
        virEventRemoveTimeout(w->timer);
    }
    g_free(w);
}

bool domain_watch_stands(struct domain_watch *w, bool *stands, GError **error)
{
    virDomainJobInfo job = { 0 };
    int state, reason;

    if (virDomainGetState(w->domain, &state, &reason, 0) < 0) {
        return fail_with_libvirt(w, error);
    }
    if (state == VIR_DOMAIN_SHUTOFF ||
        (state == VIR_DOMAIN_CRASHED &&
         virDomainIsActive(w->domain) == 0)) {
        return agent_fail(error, AGENT_ERROR_CLOSED, "%s is off: there is no "
                          "memory and no vCPU; virsh start %s starts it",
                          name_of(w), name_of(w));
    }
    /* One that is complete is still there: its QEMU is about to end. */
    if ((!virDomainGetJobInfo(w->domain, &job) &&
         job.type != VIR_DOMAIN_JOB_NONE) ||
        (state == VIR_DOMAIN_PAUSED && reason == VIR_DOMAIN_PAUSED_MIGRATION)) {
        return agent_fail(error, AGENT_ERROR_COMMAND, "%s is being migrated, "
                          "saved or dumped: wait until that is done (virsh "
                          "domjobinfo %s)", name_of(w), name_of(w));
    }
    *stands = state == VIR_DOMAIN_PAUSED || state == VIR_DOMAIN_CRASHED ||
              state == VIR_DOMAIN_PMSUSPENDED;
    return true;
}

/* Waits until something has happened, or for a time. */
static bool take_events(struct domain_watch *w, int ms, GError **error)
{
    w->news = false;
    virEventUpdateTimeout(w->timer, ms);
    while (!w->news) {
        if (virEventRunDefaultImpl() < 0) {
            return fail_with_libvirt(w, error);
        }
    }
    virEventUpdateTimeout(w->timer, -1);
    return true;
}

/* How long to wait at once, in ms: @until it is, or a look is due */
static int wait_ms(gint64 until)
{
    gint64 left = (until - g_get_monotonic_time() + 999) / 1000;

    return until ? (int)CLAMP(left, 0, LOOK_MS) : LOOK_MS;
}

bool domain_watch_wait(struct domain_watch *w, gint64 until, int cancel_fd,
                       GError **error)
{
    int watch = cancel_fd < 0 ? -1 :
                virEventAddHandle(cancel_fd, VIR_EVENT_HANDLE_READABLE,
                                  on_cancel, w, NULL);
    bool ok = cancel_fd < 0 || watch >= 0 || fail_with_libvirt(w, error);

    w->cancelled = false;
    /* It may have happened before there was somebody to be told. */
    ok = ok && domain_watch_stands(w, &w->stands, error);
    while (ok && !w->stands && !w->ended && !w->cancelled) {
        int ms = wait_ms(until);

        ok = (ms || agent_fail(error, AGENT_ERROR_TIMEOUT, "%s runs still",
                               name_of(w))) &&
             take_events(w, ms, error) &&
             (virConnectIsAlive(w->connection) == 1 ||
              agent_fail(error, AGENT_ERROR_CLOSED, "%s: the connection to "
                         "libvirt has ended", name_of(w)));
    }
    if (watch >= 0) {
        virEventRemoveHandle(watch);
    }
    if (!ok) {
        return false;
    }
    if (w->ended) {
        return agent_fail(error, AGENT_ERROR_CLOSED, "%s has ended, and its "
                          "memory with it; <on_crash>preserve</on_crash> "
                          "keeps a domain after a panic", name_of(w));
    }
    return !w->cancelled ||
           agent_fail(error, AGENT_ERROR_CANCELLED, "cancelled");
}

bool domain_watch_attend(struct domain_watch *w, int fd, GError **error)
{
    int watch = virEventAddHandle(fd, VIR_EVENT_HANDLE_READABLE, on_cancel, w,
                                  NULL);
    bool ok = watch >= 0 || fail_with_libvirt(w, error);

    w->cancelled = false;
    while (ok && !w->cancelled) {
        ok = take_events(w, LOOK_MS, error) &&
             (virConnectIsAlive(w->connection) == 1 ||
              agent_fail(error, AGENT_ERROR_CLOSED, "%s: the connection to "
                         "libvirt has ended", name_of(w)));
    }
    if (watch >= 0) {
        virEventRemoveHandle(watch);
    }
    return ok;
}

bool domain_watch_paused(struct domain_watch *w)
{
    int state, reason;

    return virDomainGetState(w->domain, &state, &reason, 0) >= 0 &&
           state == VIR_DOMAIN_PAUSED && reason == VIR_DOMAIN_PAUSED_USER;
}

void domain_watch_stops(struct domain_watch *w)
{
    take_events(w, 0, NULL);
    w->suspended = w->resumed = false;
}

bool domain_watch_resumed(struct domain_watch *w)
{
    take_events(w, 0, NULL);
    return w->resumed;
}

bool domain_watch_stop(struct domain_watch *w, GError **error)
{
    domain_watch_stops(w);
    return virDomainSuspend(w->domain) >= 0 || fail_with_libvirt(w, error);
}

bool domain_watch_go_on(struct domain_watch *w, GError **error)
{
    return virDomainResume(w->domain) >= 0 || fail_with_libvirt(w, error);
}

bool domain_watch_ran(struct domain_watch *w)
{
    gint64 end = g_get_monotonic_time() + EVENTS_MS * 1000;
    bool ran;

    while (!w->ran && !w->ended && g_get_monotonic_time() < end &&
           take_events(w, EVENTS_MS, NULL)) {
    }
    ran = w->ran || w->ended;
    w->ran = false;
    return ran;
}
