/*
 * virsh-trace-end.c: Wait for the end of a trace session, or of a dump
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-end.h"
#include "virsh-trace-agent.h"
#include "virsh-trace-text.h"

#include "client/answer.h"
#include "client/session-wait.h"
#include "util/agent-error.h"
#include "util/json.h"

/* Print the result of a session.  Returns false if it has failed. */
static bool
virshTracePrintEnd(vshControl *ctl,
                   const char *session,
                   JsonObject *info,
                   bool stopped)
{
    const char *why = answer_why(info);
    bool failed = answer_has_failed(info);
    struct progress progress = answer_progress(info);
    g_autofree char *path = answer_path(info);
    g_autofree char *sum = progress_sum(path, &progress, failed ? NULL : why);

    if (!failed && stopped)
        virshTraceSay(ctl, _("Session '%1$s' stopped"), session);
    else if (!failed)
        virshTraceSay(ctl, _("Session '%1$s' has ended"), session);
    virshTraceSay(ctl, "%s", sum);
    if (failed) {
        virshTraceComplain(ctl, _("session '%1$s' has failed; its trace is incomplete: %2$s"),
                           session, why ? why : _("unknown reason"));
    }
    return !failed;
}

/* Print the result of a dump.  Returns false if it has failed. */
static bool
virshTracePrintDump(vshControl *ctl,
                    JsonObject *info)
{
    const char *why = answer_why(info);
    struct progress progress = answer_progress(info);
    g_autofree char *path = answer_path(info);
    g_autofree char *written = progress_written(path, &progress);

    if (answer_has_failed(info)) {
        virshTraceComplain(ctl, _("trace '%1$s' could not be written: %2$s"),
                           path, why ? why : _("unknown reason"));
        return false;
    }

    virshTraceSay(ctl, "%s", written);
    return true;
}

/* A wait for the end of a session or of a dump */
typedef struct _virshTraceWaiter virshTraceWaiter;
struct _virshTraceWaiter {
    struct session_wait wait;
    vshControl *ctl;
    virshDomain *dom; /* NULL while there is no connection */
    char *name; /* of the domain */
    unsigned char uuid[VIR_UUID_BUFLEN];
    const char *session;
    bool dump; /* wait for this file, and not for the session's end */
    char *file;
    bool verbose;
    bool stopped; /* the agent has been asked to stop the session */
    bool interrupted;
    bool printed; /* the cursor is after the progress */
    gint64 begin;
    JsonObject *info; /* the last answer */
    GError *error; /* if there was none */
};

static void
virshTraceWaiterClear(virshTraceWaiter *w)
{
    g_clear_pointer(&w->dom, virshDomainFree);
    g_clear_pointer(&w->name, g_free);
    g_clear_pointer(&w->file, g_free);
    g_clear_pointer(&w->info, json_object_unref);
    g_clear_error(&w->error);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(virshTraceWaiter, virshTraceWaiterClear);

static void
virshTracePrintProgress(virshTraceWaiter *w)
{
    struct progress progress = answer_progress(w->info);
    g_autofree char *line = progress_line((g_get_monotonic_time() - w->begin) * 1000,
                                          &progress, PROGRESS_NO_RATE);

    vshPrintExtra(w->ctl, "\r%s", line);
    w->printed = true;
    fflush(stdout);
}

/* Begin another line after the progress. */
static void
virshTraceEndProgress(virshTraceWaiter *w)
{
    if (w->printed)
        vshPrintExtra(w->ctl, "\n");
    w->printed = false;
    fflush(stdout);
}

/* The wait is given up: say what continues, and how to follow it. */
static void
virshTraceGiveUp(virshTraceWaiter *w)
{
    virshTraceEndProgress(w);
    if (w->dump) {
        virshTraceComplain(w->ctl, _("trace '%1$s' is still being written; 'trace-list %2$s' shows when it is whole"),
                           w->file, w->name);
    } else if (w->stopped) {
        virshTraceComplain(w->ctl, _("session '%1$s' is still being ended; 'trace-status %2$s --session %1$s' shows when it has ended"),
                           w->session, w->name);
    } else {
        virshTraceComplain(w->ctl, _("session '%1$s' continues; 'trace-stop %2$s --session %1$s' ends it"),
                           w->session, w->name);
    }
}

/*
 * What session_wait_poll() calls
 */
static void
virshTraceLost(void *opaque)
{
    virshTraceWaiter *w = opaque;

    vshResetLibvirtError();
    virshTraceEndProgress(w);
    /* It has a reference to the connection. */
    g_clear_pointer(&w->dom, virshDomainFree);
}

static bool
virshTraceIsConnected(void *opaque)
{
    virshTraceWaiter *w = opaque;

    return virConnectIsAlive(virDomainGetConnect(w->dom)) == 1;
}

static bool
virshTraceConnect(void *opaque)
{
    virshTraceWaiter *w = opaque;
    virshControl *priv = w->ctl->privData;

    if (w->ctl->hooks->connHandler(w->ctl))
        w->dom = virDomainLookupByUUID(priv->conn, w->uuid);

    return !!w->dom;
}

/* The status of the session, or of the dump; NULL on error */
static JsonObject *
virshTraceGetStatus(virshTraceWaiter *w)
{
    const struct service_client client = virshTraceClient(w->dom);
    g_autoptr(JsonObject) info = NULL;
    JsonObject *last;

    if (!(info = service_client_status(&client, w->session, &w->error)))
        return NULL;

    /* Earlier sessions of this name may have ended before it. */
    if ((last = answer_last(info, w->dump ? ANSWER_DUMPS : ANSWER_SESSIONS,
                            NULL, w->file)))
        return json_object_ref(last);

    if (w->dump) {
        agent_fail(&w->error, AGENT_ERROR_COMMAND,
                   _("the agent no longer knows the dump '%1$s'; trace-list shows whether it is whole"),
                   w->file);
    } else {
        agent_fail(&w->error, AGENT_ERROR_COMMAND,
                   _("it has no session '%1$s'"), w->session);
    }
    return NULL;
}

/* After an interrupt, the session is stopped once. */
static bool
virshTraceWaiterAsk(void *opaque)
{
    virshTraceWaiter *w = opaque;

    g_clear_pointer(&w->info, json_object_unref);
    g_clear_error(&w->error);

    if (w->interrupted && !w->stopped) {
        w->info = virshTraceAsk(w->dom,
                                btrail_json_new("s:do", "stop", "s:session",
                                                w->session, NULL),
                                &w->error);
        w->stopped = !!w->info;
    } else {
        w->info = virshTraceGetStatus(w);
    }

    return !!w->info;
}

static bool
virshTraceIsOff(void *opaque)
{
    virshTraceWaiter *w = opaque;

    return virDomainIsActive(w->dom) == 0;
}

static bool
virshTraceWaiterCaptured(void *opaque)
{
    virshTraceWaiter *w = opaque;

    return virshTraceIsCaptured(w->dom);
}

/* The domain has been shut off; its session is complete, a dump may not be. */
static bool
virshTracePrintShutOff(virshTraceWaiter *w)
{
    virshTraceEndProgress(w);
    if (w->dump) {
        virshTraceComplain(w->ctl, _("domain '%1$s' has ended while '%2$s' was being written"),
                           w->name, w->file);
        return false;
    }
    vshPrintExtra(w->ctl, "%s", _("The domain has ended, and its session with it\n"));
    return true;
}

static void
virshTraceWaiterInit(virshTraceWaiter *w,
                     vshControl *ctl,
                     virshDomain **dom,
                     const char *session)
{
    w->ctl = ctl;
    w->dom = g_steal_pointer(dom);
    w->name = g_strdup(virDomainGetName(w->dom));
    ignore_value(virDomainGetUUID(w->dom, w->uuid));
    w->session = session;
    w->begin = g_get_monotonic_time();
    w->wait = (struct session_wait) {
        .opaque = w,
        .is_connected = virshTraceIsConnected,
        .lost = virshTraceLost,
        .connect = virshTraceConnect,
        .ask = virshTraceWaiterAsk,
        .is_off = virshTraceIsOff,
        .is_captured = virshTraceWaiterCaptured,
    };
}

/* Is what was waited for written?  If so, @ret gets whether it is in order. */
static bool
virshTraceIsDone(virshTraceWaiter *w,
                 bool *ret)
{
    if (!(w->dump ? answer_is_written(w->info) : answer_has_ended(w->info)))
        return false;

    virshTraceEndProgress(w);
    *ret = w->dump ? virshTracePrintDump(w->ctl, w->info) :
        virshTracePrintEnd(w->ctl, w->session, w->info, w->stopped);
    return true;
}

/**
 * virshTraceWaitEnd:
 *
 * Wait until a session ends, and stop it on interrupt, or until a dump is
 * written.  The domain may be shut off meanwhile, and libvirtd and the agent
 * may be restarted.  vshEventStart() has been called.
 *
 * Returns false, with an error reported, if it did not end in order.
 */
static bool
virshTraceWaitEnd(virshTraceWaiter *w)
{
    while (true) {
        enum session_wait_result result;
        int event = vshEventWait(w->ctl);
        bool ret;

        if (event < 0)
            return false;

        if (event == VSH_EVENT_INTERRUPT) {
            if (w->stopped || w->interrupted) {
                virshTraceGiveUp(w);
                return false;
            }
            w->interrupted = true;
        }

        result = session_wait_poll(&w->wait);
        vshResetLibvirtError();
        switch (result) {
        case SESSION_WAIT_AGAIN:
            continue;

        case SESSION_WAIT_LOST:
            virshTraceGiveUp(w);
            return false;

        case SESSION_WAIT_OFF:
            return virshTracePrintShutOff(w);

        case SESSION_WAIT_NO_ANSWER:
            virshTraceEndProgress(w);
            virshTraceReport(w->ctl, w->name, w->error);
            return false;

        case SESSION_WAIT_ANSWERED:
            break;
        }

        if (w->verbose)
            virshTracePrintProgress(w);

        if (virshTraceIsDone(w, &ret))
            return ret;
    }
}

/* Have a session do something, and wait until the result is written. */
static bool
virshTraceDo(virshTraceWaiter *w,
             JsonObject *command)
{
    bool ret = false;

    w->stopped = true;
    w->verbose = isatty(STDOUT_FILENO);
    if (!(w->info = virshTraceAsk(w->dom, command, &w->error))) {
        virshTraceReport(w->ctl, w->name, w->error);
        return false;
    }

    w->file = w->dump ? g_strdup(btrail_json_string(w->info, "file")) : NULL;
    if (virshTraceIsDone(w, &ret) || vshEventStart(w->ctl, SESSION_WAIT_MS) < 0)
        return ret;

    ret = virshTraceWaitEnd(w);
    vshEventCleanup(w->ctl);
    return ret;
}

bool
virshTraceEndSession(vshControl *ctl,
                     virshDomain **dom,
                     const char *session,
                     bool verbose)
{
    g_auto(virshTraceWaiter) waiter = { .verbose = verbose };

    virshTraceWaiterInit(&waiter, ctl, dom, session);
    return virshTraceWaitEnd(&waiter);
}

bool
virshTraceEndStopped(vshControl *ctl,
                     virshDomain **dom,
                     const char *session)
{
    g_auto(virshTraceWaiter) waiter = { 0 };

    virshTraceWaiterInit(&waiter, ctl, dom, session);
    return virshTraceDo(&waiter, btrail_json_new("s:do", "stop", "s:session",
                                                 session, NULL));
}

bool
virshTraceEndDump(vshControl *ctl,
                  virshDomain **dom,
                  const char *session,
                  const char *file)
{
    g_auto(virshTraceWaiter) waiter = { .dump = true };

    virshTraceWaiterInit(&waiter, ctl, dom, session);
    return virshTraceDo(&waiter, btrail_json_new("s:do", "dump", "s:session",
                                                 session, "S:file", file,
                                                 NULL));
}
