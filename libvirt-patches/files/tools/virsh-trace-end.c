/*
 * virsh-trace-end.c: Wait for the end of a trace session, or of a dump
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-end.h"
#include "virsh-trace-agent.h"
#include "virsh-trace-answer.h"
#include "virsh-trace-text.h"
#include "virsh-trace-wait.h"

/* The result of a session */
static void
virshTracePrintSums(vshControl *ctl,
                    virJSONValue *session)
{
    g_autofree char *size = virshTraceSizeText(session, "bytes");
    g_autofree char *file = virshTracePath(session);
    g_autofree char *why = virshTraceGetText(session, "why");

    virshTraceSay(ctl, _("%1$llu branches recorded, %2$llu lost, vCPUs paused for %3$.3f s"),
                  virshTraceNumber(session, "records"),
                  virshTraceNumber(session, "lost"),
                  virshTraceNumber(session, "paused-ns") / 1e9);
    if (*file)
        virshTraceSay(ctl, _("Trace '%1$s' has %2$s"), file, size);
    if (*why && STRNEQ(virshTraceState(session), "failed"))
        virshTraceSay(ctl, _("Reason: %1$s"), why);
}

/* Print the result of a session.  Returns false if it has failed. */
static bool
virshTracePrintEnd(vshControl *ctl,
                   const char *session,
                   virJSONValue *info,
                   bool stopped)
{
    g_autofree char *why = virshTraceGetText(info, "why");

    if (STREQ(virshTraceState(info), "failed")) {
        virshTracePrintSums(ctl, info);
        virshTraceComplain(ctl, _("session '%1$s' has failed; its trace is incomplete: %2$s"),
                           session, *why ? why : _("unknown reason"));
        return false;
    }

    if (stopped)
        virshTraceSay(ctl, _("Session '%1$s' stopped"), session);
    else
        virshTraceSay(ctl, _("Session '%1$s' has ended"), session);
    virshTracePrintSums(ctl, info);
    return true;
}

/* Print the result of a dump.  Returns false if it has failed. */
static bool
virshTracePrintDump(vshControl *ctl,
                    virJSONValue *info)
{
    g_autofree char *file = virshTracePath(info);
    g_autofree char *why = virshTraceGetText(info, "why");
    g_autofree char *size = virshTraceSizeText(info, "bytes");

    if (STREQ(virshTraceState(info), "failed")) {
        virshTraceComplain(ctl, _("trace '%1$s' could not be written: %2$s"), file, why);
        return false;
    }

    virshTraceSay(ctl, _("Trace: %1$s"), file);
    virshTraceSay(ctl, _("%1$llu branches, %2$s"),
                  virshTraceNumber(info, "records"), size);
    return true;
}

/* A wait for the end of a session or of a dump */
typedef struct _virshTraceWaiter virshTraceWaiter;
struct _virshTraceWaiter {
    virshTraceWait wait;
    vshControl *ctl;
    virshDomain *dom; /* NULL while there is no connection */
    char *name; /* of the domain */
    unsigned char uuid[VIR_UUID_BUFLEN];
    const char *session;
    const char *file; /* of a dump; NULL to wait for the session's end */
    bool verbose;
    bool stopped; /* the agent has been asked to stop the session */
    bool interrupted;
    bool printed; /* the cursor is behind the progress */
    gint64 begin;
    virJSONValue *info; /* the last answer */
    virshTraceError err;
};

static void
virshTraceWaiterClear(virshTraceWaiter *w)
{
    g_clear_pointer(&w->dom, virshDomainFree);
    g_clear_pointer(&w->name, g_free);
    g_clear_pointer(&w->info, virJSONValueFree);
    virshTraceErrorClear(&w->err);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(virshTraceWaiter, virshTraceWaiterClear);

static void
virshTracePrintProgress(virshTraceWaiter *w)
{
    g_autofree char *size = virshTraceSizeText(w->info, "bytes");
    long long seconds = (g_get_monotonic_time() - w->begin) / G_USEC_PER_SEC;

    if (w->file) {
        vshPrintExtra(w->ctl, _("\rWriting: [%1$3lld s] "), seconds);
    } else {
        vshPrintExtra(w->ctl, _("\rTracing: [%1$3lld s] %2$llu branches recorded, %3$llu lost, %4$s "),
                      seconds, virshTraceNumber(w->info, "records"),
                      virshTraceNumber(w->info, "lost"), size);
    }
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
    if (w->file) {
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
 * What virshTraceWaitPoll() calls
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

static virDomainPtr
virshTraceConnect(void *opaque)
{
    virshTraceWaiter *w = opaque;
    virshControl *priv = w->ctl->privData;

    if (w->ctl->hooks->connHandler(w->ctl))
        w->dom = virDomainLookupByUUID(priv->conn, w->uuid);

    return w->dom;
}

/* The status of the session, or of the dump; NULL on error */
static virJSONValue *
virshTraceGetStatus(virshTraceWaiter *w)
{
    g_autoptr(virJSONValue) info = NULL;
    virJSONValue *array;
    size_t n;

    if (!(info = virshTraceAsk(w->ctl, w->dom, &w->err, "s:do", "status",
                               "s:session", w->session, NULL)))
        return NULL;

    /* Earlier sessions of this name may have ended before it. */
    for (n = virshTraceCount(info, w->file ? "dumps" : "sessions", &array); n > 0; n--) {
        virJSONValue *one = virJSONValueArrayGet(array, n - 1);

        if (!w->file ||
            STREQ_NULLABLE(virJSONValueObjectGetString(one, "file"), w->file))
            return virJSONValueCopy(one);
    }

    if (w->file) {
        virshTraceFail(w->ctl, &w->err, false,
                       _("the agent of domain '%1$s' no longer knows the dump '%2$s'; trace-list shows whether it is whole"),
                       virDomainGetName(w->dom), w->file);
    } else {
        virshTraceFail(w->ctl, &w->err, false,
                       _("domain '%1$s' has no session '%2$s'"),
                       virDomainGetName(w->dom), w->session);
    }
    return NULL;
}

/* After an interrupt, the session is stopped once. */
static gboolean
virshTraceWaiterAsk(void *opaque)
{
    virshTraceWaiter *w = opaque;

    g_clear_pointer(&w->info, virJSONValueFree);
    virshTraceErrorClear(&w->err);

    if (w->interrupted && !w->stopped) {
        w->info = virshTraceAsk(w->ctl, w->dom, &w->err, "s:do", "stop",
                                "s:session", w->session, NULL);
        w->stopped = !!w->info;
    } else {
        w->info = virshTraceGetStatus(w);
    }

    return !!w->info;
}

static gboolean
virshTraceCaptured(void *opaque)
{
    virshTraceWaiter *w = opaque;

    return virshTraceIsCaptured(w->ctl, w->dom);
}

/* The domain has been shut off; its session is complete, a dump may not be. */
static bool
virshTracePrintShutOff(virshTraceWaiter *w)
{
    virshTraceEndProgress(w);
    if (w->file) {
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
    w->wait = (virshTraceWait) {
        .dom = w->dom,
        .opaque = w,
        .lost = virshTraceLost,
        .connect = virshTraceConnect,
        .ask = virshTraceWaiterAsk,
        .captured = virshTraceCaptured,
    };
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
        virshTraceWaitResult result;
        int event = vshEventWait(w->ctl);

        if (event < 0)
            return false;

        if (event == VSH_EVENT_INTERRUPT) {
            if (w->stopped || w->interrupted) {
                virshTraceGiveUp(w);
                return false;
            }
            w->interrupted = true;
        }

        result = virshTraceWaitPoll(&w->wait);
        vshResetLibvirtError();
        switch (result) {
        case VIRSH_TRACE_WAIT_AGAIN:
            continue;

        case VIRSH_TRACE_WAIT_LOST:
            virshTraceGiveUp(w);
            return false;

        case VIRSH_TRACE_WAIT_SHUT_OFF:
            return virshTracePrintShutOff(w);

        case VIRSH_TRACE_WAIT_NO_ANSWER:
            virshTraceEndProgress(w);
            virshTraceComplain(w->ctl, "%s", NULLSTR(w->err.message));
            return false;

        case VIRSH_TRACE_WAIT_ANSWERED:
            break;
        }

        if (w->verbose)
            virshTracePrintProgress(w);

        if (w->file && STRNEQ(virshTraceState(w->info), "writing")) {
            virshTraceEndProgress(w);
            return virshTracePrintDump(w->ctl, w->info);
        }

        if (!w->file && virshTraceHasEnded(w->info)) {
            virshTraceEndProgress(w);
            return virshTracePrintEnd(w->ctl, w->session, w->info, w->stopped);
        }
    }
}

/* Wait until what has been stopped or dumped is written. */
static bool
virshTraceWaitWritten(virshTraceWaiter *w)
{
    bool ret;

    w->stopped = true;
    w->verbose = isatty(STDOUT_FILENO);
    if (vshEventStart(w->ctl, VIRSH_TRACE_POLL_MS) < 0)
        return false;

    ret = virshTraceWaitEnd(w);
    vshEventCleanup(w->ctl);
    return ret;
}

/* A session that has just started.  vshEventStart() has been called. */
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

/* A session that has been stopped, with the agent's answer @info to that */
bool
virshTraceEndStopped(vshControl *ctl,
                     virshDomain **dom,
                     const char *session,
                     virJSONValue *info)
{
    g_auto(virshTraceWaiter) waiter = { 0 };

    if (virshTraceHasEnded(info))
        return virshTracePrintEnd(ctl, session, info, true);

    virshTraceWaiterInit(&waiter, ctl, dom, session);
    return virshTraceWaitWritten(&waiter);
}

/* A dump, with the agent's answer @info to the request */
bool
virshTraceEndDump(vshControl *ctl,
                  virshDomain **dom,
                  const char *session,
                  virJSONValue *info)
{
    g_auto(virshTraceWaiter) waiter = {
        .file = virJSONValueObjectGetString(info, "file"),
    };

    if (!waiter.file || STRNEQ(virshTraceState(info), "writing"))
        return virshTracePrintDump(ctl, info);

    virshTraceWaiterInit(&waiter, ctl, dom, session);
    return virshTraceWaitWritten(&waiter);
}
