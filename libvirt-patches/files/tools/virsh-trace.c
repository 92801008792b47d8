/*
 * virsh-trace.c: Commands to trace the branches of a domain
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-completer-trace.h"
#include "virsh-trace-wait.h"
#include "virsh-util.h"

#include <libvirt/libvirt-qemu.h>

#include "internal.h"
#include "viralloc.h"
#include "virbuffer.h"
#include "virjson.h"
#include "virstring.h"
#include "virutil.h"
#include "virxml.h"
#include "vsh-table.h"

/* How long QEMU waits for its agent before it reports an error */
#define VIRSH_TRACE_TIMEOUT_MS 30000

/*
 * Returns a copy of @text, "" if that is NULL.  It comes from the host of a
 * domain, or from another user, and must not control the terminal.
 */
static char *
virshTraceText(const char *text)
{
    g_autofree char *valid = g_utf8_make_valid(NULLSTR_EMPTY(text), -1);
    char *p;

    for (p = valid; *p; p++) {
        if (g_ascii_iscntrl(*p))
            *p = '?';
    }

    return g_steal_pointer(&valid);
}

/* An error that is not reported at once, as it may be none */
typedef struct _virshTraceError virshTraceError;
struct _virshTraceError {
    bool unable; /* the domain cannot be traced, or is not running */
    char *message;
};

static void
virshTraceErrorClear(virshTraceError *err)
{
    g_clear_pointer(&err->message, g_free);
    err->unable = false;
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(virshTraceError, virshTraceErrorClear);

/* Stores an error in @err, or reports it if that is NULL.  @message is stolen. */
static void
virshTraceFail(vshControl *ctl,
               virshTraceError *err,
               bool unable,
               char *message)
{
    if (err) {
        virshTraceErrorClear(err);
        err->unable = unable;
        err->message = message;
    } else {
        vshError(ctl, "%s", message);
        g_free(message);
    }
}

/* Stores the error of a libvirt function that has failed in @err.  If that is
 * NULL, virsh reports the error as usual. */
static void
virshTraceFailLibvirt(vshControl *ctl,
                      virDomainPtr dom,
                      virshTraceError *err)
{
    int code = virGetLastErrorCode();
    /* Any other call resets it. */
    g_autofree char *why = g_strdup(virGetLastErrorMessage());
    bool unable;

    if (!err)
        return;

    unable = code == VIR_ERR_NO_DOMAIN || code == VIR_ERR_NO_SUPPORT ||
             virDomainIsActive(dom) == 0;
    virshTraceFail(ctl, err, unable,
                   g_strdup_printf(_("domain '%1$s': %2$s"),
                                   virDomainGetName(dom), why));
    vshResetLibvirtError();
}

/**
 * virshTraceQmp:
 * @ctl: virsh control structure
 * @dom: a running domain
 * @err: gets the error; NULL to have it reported
 * @name: QMP command
 * @arguments: its arguments, stolen; NULL for none
 *
 * Returns what the command returned, or NULL on error.
 */
static virJSONValue *
virshTraceQmp(vshControl *ctl,
              virDomainPtr dom,
              virshTraceError *err,
              const char *name,
              virJSONValue **arguments)
{
    g_autoptr(virJSONValue) command = NULL;
    g_autoptr(virJSONValue) reply = NULL;
    g_autofree char *commandstr = NULL;
    g_autofree char *replystr = NULL;
    g_autofree char *desc = NULL;
    virJSONValue *error = NULL;
    virJSONValue *ret;
    const char *klass;

    if (virJSONValueObjectAdd(&command,
                              "s:execute", name,
                              "A:arguments", arguments,
                              NULL) < 0 ||
        !(commandstr = virJSONValueToString(command, false))) {
        vshSaveLibvirtError();
        return NULL;
    }

    if (virDomainQemuMonitorCommand(dom, commandstr, &replystr, 0) < 0) {
        virshTraceFailLibvirt(ctl, dom, err);
        return NULL;
    }

    if ((reply = virJSONValueFromString(replystr)) &&
        virJSONValueIsObject(reply)) {
        if ((ret = virJSONValueObjectStealObject(reply, "return")))
            return ret;

        error = virJSONValueObjectGetObject(reply, "error");
    }

    if (!error) {
        vshResetLibvirtError();
        virshTraceFail(ctl, err, false,
                       g_strdup_printf(_("domain '%1$s': the reply of QEMU to '%2$s' is malformed"),
                                       virDomainGetName(dom), name));
        return NULL;
    }

    klass = virJSONValueObjectGetString(error, "class");
    desc = virshTraceText(virJSONValueObjectGetString(error, "desc"));

    if (STREQ_NULLABLE(klass, "CommandNotFound")) {
        virshTraceFail(ctl, err, true,
                       g_strdup_printf(_("the QEMU of domain '%1$s' cannot trace branches"),
                                       virDomainGetName(dom)));
    } else if (STREQ_NULLABLE(klass, "DeviceNotFound")) {
        virshTraceFail(ctl, err, true,
                       g_strdup_printf(_("domain '%1$s' has no branch-trace device; it must be started with one"),
                                       virDomainGetName(dom)));
    } else {
        virshTraceFail(ctl, err, false,
                       g_strdup_printf(_("domain '%1$s': %2$s"),
                                       virDomainGetName(dom), desc));
    }
    return NULL;
}

/**
 * virshTraceAgent:
 * @err: gets the error; NULL to have it reported
 * @command: for the agent on the domain's host, stolen
 *
 * Returns what the agent returned, or NULL on error.
 */
static virJSONValue *
virshTraceAgent(vshControl *ctl,
                virDomainPtr dom,
                virshTraceError *err,
                virJSONValue **command)
{
    g_autoptr(virJSONValue) arguments = NULL;

    if (virJSONValueObjectAdd(&arguments,
                              "a:command", command,
                              "u:timeout", VIRSH_TRACE_TIMEOUT_MS,
                              NULL) < 0) {
        vshSaveLibvirtError();
        return NULL;
    }

    return virshTraceQmp(ctl, dom, err, "branch-trace-agent", &arguments);
}

/* A command with a session and a file only, each of which may be NULL: "status"
 * of all sessions or of one, "stop", "dump" or "list" */
static virJSONValue *
virshTraceSimple(vshControl *ctl,
                 virDomainPtr dom,
                 virshTraceError *err,
                 const char *what,
                 const char *session,
                 const char *file)
{
    g_autoptr(virJSONValue) command = NULL;

    if (virJSONValueObjectAdd(&command,
                              "s:do", what,
                              "S:session", session,
                              "S:file", file,
                              NULL) < 0) {
        vshSaveLibvirtError();
        return NULL;
    }

    return virshTraceAgent(ctl, dom, err, &command);
}

static size_t
virshTraceCount(virJSONValue *object,
                const char *name,
                virJSONValue **array)
{
    *array = virJSONValueObjectGetArray(object, name);

    return *array ? virJSONValueArraySize(*array) : 0;
}

static unsigned long long
virshTraceNumber(virJSONValue *object,
                 const char *name)
{
    unsigned long long value = 0;

    ignore_value(virJSONValueObjectGetNumberUlong(object, name, &value));
    return value;
}

static const char *
virshTraceState(virJSONValue *object)
{
    const char *state = virJSONValueObjectGetString(object, "state");

    return state ? state : "unknown";
}

/* A session that has ended has the time when it did. */
static bool
virshTraceHasEnded(virJSONValue *session)
{
    virJSONValue *ended = virJSONValueObjectGet(session, "ended");

    return ended && virJSONValueGetType(ended) != VIR_JSON_TYPE_NULL;
}

/**
 * virshTraceGetSession:
 *
 * Get the session that a command is for: the one that is named, or the only one
 * of this user.
 *
 * Returns its name, or NULL with an error reported.
 */
static char *
virshTraceGetSession(vshControl *ctl,
                     virDomainPtr dom,
                     const vshCmd *cmd)
{
    g_autoptr(virJSONValue) info = NULL;
    g_autofree char *owner = virshTraceOwner();
    g_autofree char *mine = NULL;
    const char *session = NULL;
    virJSONValue *sessions;
    size_t others = 0;
    size_t n;
    size_t i;

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0)
        return NULL;

    if (session)
        return g_strdup(session);

    if (!(info = virshTraceSimple(ctl, dom, NULL, "status", NULL, NULL)))
        return NULL;

    n = virshTraceCount(info, "sessions", &sessions);
    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(sessions, i);
        const char *name = virJSONValueObjectGetString(one, "session");

        if (!name || virshTraceHasEnded(one))
            continue;

        if (STRNEQ_NULLABLE(virJSONValueObjectGetString(one, "owner"), owner)) {
            others++;
            continue;
        }

        if (mine) {
            vshError(ctl,
                     _("domain '%1$s' has several sessions of yours; name one with --session"),
                     virDomainGetName(dom));
            return NULL;
        }

        mine = g_strdup(name);
    }

    if (!mine && others) {
        vshError(ctl,
                 _("domain '%1$s' has sessions of other users only; name one with --session"),
                 virDomainGetName(dom));
    } else if (!mine) {
        vshError(ctl, _("domain '%1$s' is not being traced"),
                 virDomainGetName(dom));
    }

    return g_steal_pointer(&mine);
}

static char *
virshTraceSize(unsigned long long bytes)
{
    const char *unit;
    double value = vshPrettyCapacity(bytes, &unit);

    return g_strdup_printf("%.3f %s", value, unit);
}

/* The path of a trace on the domain's host; only its name if the agent does
 * not report the folder */
static char *
virshTracePath(virJSONValue *object)
{
    g_autofree char *folder = virshTraceText(virJSONValueObjectGetString(object, "folder"));
    g_autofree char *file = virshTraceText(virJSONValueObjectGetString(object, "file"));

    if (*folder && *file)
        return g_strdup_printf("%s/%s", folder, file);

    return g_steal_pointer(&file);
}

/* The result of a session */
static void
virshTracePrintSums(vshControl *ctl,
                    virJSONValue *session)
{
    g_autofree char *size = virshTraceSize(virshTraceNumber(session, "bytes"));
    g_autofree char *file = virshTracePath(session);
    g_autofree char *why = virshTraceText(virJSONValueObjectGetString(session, "why"));

    vshPrintExtra(ctl, _("%1$llu branches recorded, %2$llu lost, vCPUs paused for %3$.3f s\n"),
                  virshTraceNumber(session, "records"),
                  virshTraceNumber(session, "lost"),
                  virshTraceNumber(session, "paused-ns") / 1e9);
    if (*file)
        vshPrintExtra(ctl, _("Trace '%1$s' has %2$s\n"), file, size);
    if (*why && STRNEQ(virshTraceState(session), "failed"))
        vshPrintExtra(ctl, _("Reason: %1$s\n"), why);
}

/**
 * virshTraceDomains:
 *
 * Get the domain that is named, or all running ones.
 *
 * Returns their number, or -1 with an error reported.
 */
static int
virshTraceDomains(vshControl *ctl,
                  const vshCmd *cmd,
                  virDomainPtr **domains)
{
    virshControl *priv = ctl->privData;
    virDomainPtr dom;

    if (!vshCommandOptBool(cmd, "domain")) {
        return virConnectListAllDomains(priv->conn, domains,
                                        VIR_CONNECT_LIST_DOMAINS_ACTIVE);
    }

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return -1;

    *domains = g_new0(virDomainPtr, 1);
    **domains = dom;
    return 1;
}

static void
virshTraceDomainsFree(virDomainPtr *domains,
                      int n)
{
    size_t i;

    for (i = 0; n > 0 && i < n; i++)
        virshDomainFree(domains[i]);
    g_free(domains);
}

/* One line for each domain, so that a program knows where each ends */
static int
virshTracePrintJSON(vshControl *ctl,
                    virDomainPtr dom,
                    virJSONValue *info)
{
    g_autofree char *text = NULL;

    if (virJSONValueObjectPrependString(info, "domain", virDomainGetName(dom)) < 0 ||
        !(text = virJSONValueToString(info, false))) {
        vshSaveLibvirtError();
        return -1;
    }

    vshPrint(ctl, "%s\n", text);
    return 0;
}

char **
virshTraceActiveSessions(vshControl *ctl,
                         virDomainPtr dom)
{
    g_autoptr(virJSONValue) info = NULL;
    g_auto(virshTraceError) err = { 0 };
    virJSONValue *sessions;
    char **ret;
    size_t used = 0;
    size_t n;
    size_t i;

    if (!(info = virshTraceSimple(ctl, dom, &err, "status", NULL, NULL)))
        return NULL;

    n = virshTraceCount(info, "sessions", &sessions);
    ret = g_new0(char *, n + 1);
    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(sessions, i);
        const char *name = virJSONValueObjectGetString(one, "session");

        if (name && !virshTraceHasEnded(one))
            ret[used++] = g_strdup(name);
    }

    return ret;
}

#define VIRSH_TRACE_OPT(_name, _type, _completer, _helpstr) \
    {.name = _name, \
     .type = VSH_OT_ ## _type, \
     .completer = _completer, \
     .help = _helpstr, \
    }

#define VIRSH_TRACE_OPT_SESSION(_helpstr) \
    VIRSH_TRACE_OPT("session", STRING, virshTraceSessionCompleter, _helpstr)

#define VIRSH_TRACE_OPT_DOMAIN(_helpstr, cflags) \
    {.name = "domain", \
     .type = VSH_OT_STRING, \
     .positional = true, \
     .completer = virshDomainNameCompleter, \
     .completer_flags = cflags, \
     .help = _helpstr, \
    }

#define VIRSH_TRACE_OPT_FILE \
    VIRSH_TRACE_OPT("file", STRING, virshCompleteEmpty, \
                    N_("name of the trace in the domain's folder on its host (default: session and time)"))

#define VIRSH_TRACE_OPT_JSON \
    VIRSH_TRACE_OPT("json", BOOL, NULL, \
                    N_("print one line of JSON for each domain"))

/*
 * "trace-start" command
 */
static const vshCmdInfo info_trace_start = {
    .help = N_("start tracing the branches of a domain"),
    .desc = N_("Record each branch that a running domain takes into a file "
               "on the domain's host. The domain needs a branch-trace "
               "device."),
};

static const vshCmdOptDef opts_trace_start[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_FILE,
    VIRSH_TRACE_OPT("session", STRING, virshCompleteEmpty,
                    N_("name of the session (default: name of the user)")),
    VIRSH_TRACE_OPT("vcpus", STRING, virshTraceVcpusCompleter,
                    N_("trace these vCPUs, such as 0,2-3 (default: all)")),
    VIRSH_TRACE_OPT("user", BOOL, NULL, N_("trace branches in user mode")),
    VIRSH_TRACE_OPT("kernel", BOOL, NULL,
                    N_("trace branches in kernel mode (default: both)")),
    VIRSH_TRACE_OPT("mode", STRING, virshTraceModeCompleter,
                    N_("continuous: write all branches; last: keep the last ones, as many as --size says, for trace-dump (default: continuous)")),
    VIRSH_TRACE_OPT("size", STRING, virshCompleteEmpty,
                    N_("with --mode last, how much to keep: 64MiB, 30s (or min, h), or 1000000records")),
    VIRSH_TRACE_OPT("split", INT, NULL,
                    N_("size at which to continue in another file, as scaled integer (default: bytes)")),
    VIRSH_TRACE_OPT("overflow", STRING, virshTraceOverflowCompleter,
                    N_("when the buffer is full: pause the vCPU, drop new records, or overwrite old ones (default: pause)")),
    VIRSH_TRACE_OPT("names", STRING, virshTraceNamesCompleter,
                    N_("names of symbols and processes, read from the domain's memory: auto, all (the domain waits until each process is known) or off (default: auto)")),
    VIRSH_TRACE_OPT("duration", STRING, virshCompleteEmpty,
                    N_("end the session after this time: seconds, or 30s, 5min or 1h")),
    VIRSH_TRACE_OPT("wait", BOOL, NULL,
                    N_("wait for the end of the session; on interrupt, stop it")),
    VIRSH_TRACE_OPT("verbose", BOOL, NULL,
                    N_("with --wait, display the progress")),
    VIRSH_TRACE_OPT("process", ARGV, virshCompleteEmpty,
                    N_("trace only this process, by name or PID; can be repeated (default: all)")),
    VIRSH_TRACE_OPT("cr3", ARGV, virshCompleteEmpty,
                    N_("trace only this address space, by its value of CR3; can be repeated (default: all)")),
    VIRSH_TRACE_OPT("trigger", ARGV, virshCompleteEmpty,
                    N_("PROCESS:SYMBOL, kernel:SYMBOL or PROCESS:kernel:SYMBOL[,do=start|stop|dump][,hits=N]: start, stop or dump when this is executed for the Nth time; can be repeated")),
    {.name = NULL}
};

/* The status of a session; NULL on error */
static virJSONValue *
virshTraceGetStatus(vshControl *ctl,
                    virDomainPtr dom,
                    virshTraceError *err,
                    const char *session)
{
    g_autoptr(virJSONValue) info = NULL;
    virJSONValue *sessions;
    size_t n;

    if (!(info = virshTraceSimple(ctl, dom, err, "status", session, NULL)))
        return NULL;

    /* Earlier ones of this name may have ended before it. */
    if ((n = virshTraceCount(info, "sessions", &sessions)) == 0) {
        virshTraceFail(ctl, err, false,
                       g_strdup_printf(_("domain '%1$s' has no session '%2$s'"),
                                       virDomainGetName(dom), session));
        return NULL;
    }

    return virJSONValueCopy(virJSONValueArrayGet(sessions, n - 1));
}

/* Is the domain being traced, whether its agent answers or not? */
static bool
virshTraceIsCaptured(vshControl *ctl,
                     virDomainPtr dom)
{
    virJSONValue *arguments = NULL;
    g_autoptr(virJSONValue) info = NULL;
    g_auto(virshTraceError) err = { 0 };

    info = virshTraceQmp(ctl, dom, &err, "query-branch-trace", &arguments);
    return info && STRNEQ(virshTraceState(info), "inactive");
}

/* The status of a dump; NULL on error */
static virJSONValue *
virshTraceGetDump(vshControl *ctl,
                  virDomainPtr dom,
                  virshTraceError *err,
                  const char *session,
                  const char *file)
{
    g_autoptr(virJSONValue) info = NULL;
    g_autofree char *text = NULL;
    virJSONValue *dumps;
    size_t n;

    if (!(info = virshTraceSimple(ctl, dom, err, "status", session, NULL)))
        return NULL;

    for (n = virshTraceCount(info, "dumps", &dumps); n > 0; n--) {
        virJSONValue *one = virJSONValueArrayGet(dumps, n - 1);

        if (STREQ_NULLABLE(virJSONValueObjectGetString(one, "file"), file))
            return virJSONValueCopy(one);
    }

    text = virshTraceText(file);
    virshTraceFail(ctl, err, false,
                   g_strdup_printf(_("the agent of domain '%1$s' no longer knows the dump '%2$s'; trace-list shows whether it is whole"),
                                   virDomainGetName(dom), text));
    return NULL;
}

/* Print the result of a session.  Returns false if it has failed. */
static bool
virshTracePrintEnd(vshControl *ctl,
                   const char *session,
                   virJSONValue *info,
                   bool stopped)
{
    g_autofree char *why = virshTraceText(virJSONValueObjectGetString(info, "why"));

    if (STREQ(virshTraceState(info), "failed")) {
        virshTracePrintSums(ctl, info);
        vshError(ctl, _("session '%1$s' has failed; its trace is incomplete: %2$s"),
                 session, *why ? why : _("unknown reason"));
        return false;
    }

    if (stopped)
        vshPrintExtra(ctl, _("Session '%1$s' stopped\n"), session);
    else
        vshPrintExtra(ctl, _("Session '%1$s' has ended\n"), session);
    virshTracePrintSums(ctl, info);
    return true;
}

/* Print the result of a dump.  Returns false if it has failed. */
static bool
virshTracePrintDump(vshControl *ctl,
                    virJSONValue *info)
{
    g_autofree char *file = virshTracePath(info);
    g_autofree char *why = virshTraceText(virJSONValueObjectGetString(info, "why"));
    g_autofree char *size = virshTraceSize(virshTraceNumber(info, "bytes"));

    if (STREQ(virshTraceState(info), "failed")) {
        vshError(ctl, _("trace '%1$s' could not be written: %2$s"), file, why);
        return false;
    }

    vshPrintExtra(ctl, _("Trace: %1$s\n"), file);
    vshPrintExtra(ctl, _("%1$llu branches, %2$s\n"),
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
    g_autofree char *size = virshTraceSize(virshTraceNumber(w->info, "bytes"));
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
    g_autofree char *file = virshTraceText(w->file);

    virshTraceEndProgress(w);
    if (w->file) {
        vshError(w->ctl, _("trace '%1$s' is still being written; 'trace-list %2$s' shows when it is whole"),
                 file, w->name);
    } else if (w->stopped) {
        vshError(w->ctl, _("session '%1$s' is still being ended; 'trace-status %2$s --session %1$s' shows when it has ended"),
                 w->session, w->name);
    } else {
        vshError(w->ctl, _("session '%1$s' continues; 'trace-stop %2$s --session %1$s' ends it"),
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

/* After an interrupt, the session is stopped once. */
static gboolean
virshTraceAsk(void *opaque)
{
    virshTraceWaiter *w = opaque;

    g_clear_pointer(&w->info, virJSONValueFree);
    virshTraceErrorClear(&w->err);

    if (w->file) {
        w->info = virshTraceGetDump(w->ctl, w->dom, &w->err, w->session,
                                    w->file);
    } else if (w->interrupted && !w->stopped) {
        w->info = virshTraceSimple(w->ctl, w->dom, &w->err, "stop", w->session,
                                   NULL);
        w->stopped = !!w->info;
    } else {
        w->info = virshTraceGetStatus(w->ctl, w->dom, &w->err, w->session);
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
        g_autofree char *file = virshTraceText(w->file);

        vshError(w->ctl, _("domain '%1$s' has ended while '%2$s' was being written"),
                 w->name, file);
        return false;
    }
    vshPrintExtra(w->ctl, "%s", _("The domain has ended, and its session with it\n"));
    return true;
}

/* @dom is stolen. */
static void
virshTraceWaiterInit(vshControl *ctl,
                     virshTraceWaiter *w,
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
        .ask = virshTraceAsk,
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
            vshError(w->ctl, "%s", NULLSTR(w->err.message));
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
virshTraceWaitWritten(vshControl *ctl,
                      virshTraceWaiter *w,
                      virshDomain **dom,
                      const char *session)
{
    bool ret;

    virshTraceWaiterInit(ctl, w, dom, session);
    w->stopped = true;
    w->verbose = isatty(STDOUT_FILENO);
    if (vshEventStart(ctl, VIRSH_TRACE_POLL_MS) < 0)
        return false;

    ret = virshTraceWaitEnd(w);
    vshEventCleanup(ctl);
    return ret;
}

static bool
cmdTraceStart(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(virJSONValue) command = NULL;
    g_autoptr(virJSONValue) started = NULL;
    g_autofree char *session = NULL;
    g_autofree char *file = NULL;
    g_auto(virshTraceWaiter) waiter = { 0 };
    bool wait = vshCommandOptBool(cmd, "wait");
    bool ret = false;

    VSH_REQUIRE_OPTION("verbose", "wait");

    if (!(command = virshTraceStartCommand(ctl, cmd)))
        return false;

    session = g_strdup(virJSONValueObjectGetString(command, "session"));

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return false;

    /* An interrupt while the session starts stops it, too. */
    if (wait && vshEventStart(ctl, VIRSH_TRACE_POLL_MS) < 0)
        return false;

    if (!(started = virshTraceAgent(ctl, dom, NULL, &command)))
        goto cleanup;

    file = virshTracePath(started);
    vshPrintExtra(ctl, _("Domain '%1$s' is being traced by session '%2$s'\n"),
                  virDomainGetName(dom), session);
    if (*file)
        vshPrintExtra(ctl, _("Trace: %1$s\n"), file);

    ret = true;
    if (wait) {
        fflush(stdout);
        virshTraceWaiterInit(ctl, &waiter, &dom, session);
        waiter.verbose = vshCommandOptBool(cmd, "verbose");
        ret = virshTraceWaitEnd(&waiter);
    }

 cleanup:
    if (wait)
        vshEventCleanup(ctl);
    return ret;
}

/*
 * "trace-stop" command
 */
static const vshCmdInfo info_trace_stop = {
    .help = N_("stop tracing the branches of a domain"),
    .desc = N_("End a session. Its trace has all that was recorded until "
               "then."),
};

static const vshCmdOptDef opts_trace_stop[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_SESSION(N_("name of the session (default: the only one of the user)")),
    {.name = NULL}
};

static bool
cmdTraceStop(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(virJSONValue) info = NULL;
    g_autofree char *session = NULL;
    g_auto(virshTraceWaiter) waiter = { 0 };

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        !(session = virshTraceGetSession(ctl, dom, cmd)) ||
        !(info = virshTraceSimple(ctl, dom, NULL, "stop", session, NULL)))
        return false;

    if (virshTraceHasEnded(info))
        return virshTracePrintEnd(ctl, session, info, true);

    return virshTraceWaitWritten(ctl, &waiter, &dom, session);
}

/*
 * "trace-dump" command
 */
static const vshCmdInfo info_trace_dump = {
    .help = N_("write the last branches of a session into a file"),
    .desc = N_("Write what a session of --mode last has kept into a trace on "
               "the domain's host. The session continues."),
};

static const vshCmdOptDef opts_trace_dump[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_FILE,
    VIRSH_TRACE_OPT_SESSION(N_("name of the session (default: the only one of the user)")),
    {.name = NULL}
};

static bool
cmdTraceDump(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(virJSONValue) info = NULL;
    g_autofree char *session = NULL;
    g_auto(virshTraceWaiter) waiter = { 0 };
    const char *file = NULL;

    if (vshCommandOptString(ctl, cmd, "file", &file) < 0)
        return false;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        !(session = virshTraceGetSession(ctl, dom, cmd)) ||
        !(info = virshTraceSimple(ctl, dom, NULL, "dump", session, file)))
        return false;

    waiter.file = virJSONValueObjectGetString(info, "file");
    if (!waiter.file || STRNEQ(virshTraceState(info), "writing"))
        return virshTracePrintDump(ctl, info);

    return virshTraceWaitWritten(ctl, &waiter, &dom, session);
}

/*
 * "trace-status" command
 */
static const vshCmdInfo info_trace_status = {
    .help = N_("show the trace sessions of domains"),
    .desc = N_("Show the sessions of a domain, or of all running ones: their "
               "owners, and what they have recorded."),
};

static const vshCmdOptDef opts_trace_status[] = {
    VIRSH_TRACE_OPT_DOMAIN(N_("domain name, id or uuid (default: all running ones)"),
                           VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    VIRSH_TRACE_OPT_SESSION(N_("show the details of this session")),
    VIRSH_TRACE_OPT("vcpus", BOOL, NULL,
                    N_("show the counters of the domain's device for each vCPU")),
    VIRSH_TRACE_OPT_JSON,
    VIRSH_TRACE_OPT("watch", BOOL, NULL,
                    N_("repeat until all sessions have ended, or until an interrupt")),
    VIRSH_TRACE_OPT("interval", INT, NULL,
                    N_("with --watch, seconds between two outputs (default: 1)")),
    {.name = NULL}
};

/* Values of an array, in one line */
static char *
virshTraceList(virJSONValue *object,
               const char *name,
               bool hex)
{
    g_auto(virBuffer) buf = VIR_BUFFER_INITIALIZER;
    virJSONValue *array;
    size_t n = virshTraceCount(object, name, &array);
    size_t i;

    for (i = 0; i < n; i++) {
        virJSONValue *value = virJSONValueArrayGet(array, i);
        g_autofree char *text = virshTraceText(virJSONValueGetString(value));
        unsigned long long number;

        if (*text) {
            virBufferAsprintf(&buf, "%s,", text);
        } else if (virJSONValueGetNumberUlong(value, &number) == 0) {
            virBufferAsprintf(&buf, hex ? "0x%llx," : "%llu,", number);
        }
    }
    virBufferTrim(&buf, ",");

    return virBufferContentAndReset(&buf);
}

static void
virshTracePrintFact(vshControl *ctl,
                    const char *title,
                    const char *value)
{
    if (value && *value)
        vshPrint(ctl, "%-15s %s\n", title, value);
}

/* A member that is a string, or a number as it is */
static void
virshTracePrintMember(vshControl *ctl,
                      const char *title,
                      virJSONValue *object,
                      const char *name)
{
    virJSONValue *value = virJSONValueObjectGet(object, name);
    g_autofree char *text = NULL;
    const char *string;

    if (!value)
        return;

    if (!(string = virJSONValueGetString(value)))
        string = virJSONValueGetNumberString(value);

    text = virshTraceText(string);
    virshTracePrintFact(ctl, title, text);
}

/* Nanoseconds, for people; NULL if there are none */
static char *
virshTraceSeconds(virJSONValue *object,
                  const char *name)
{
    unsigned long long ns;

    if (virJSONValueObjectGetNumberUlong(object, name, &ns) < 0)
        return NULL;

    return g_strdup_printf("%.3f s", ns / 1e9);
}

/* How much a session of last branches keeps; NULL for another one */
static char *
virshTraceKeeps(virJSONValue *session)
{
    virJSONValue *size = virJSONValueObjectGetObject(session, "size");
    unsigned long long number;

    if (!size)
        return NULL;

    if (virJSONValueObjectGetNumberUlong(size, "bytes", &number) == 0)
        return virshTraceSize(number);

    if (virJSONValueObjectGetNumberUlong(size, "records", &number) == 0)
        return g_strdup_printf(_("%1$llu branches"), number);

    if (virJSONValueObjectGetNumberUlong(size, "seconds", &number) == 0)
        return g_strdup_printf(_("%1$llu s"), number);

    return NULL;
}

/* One line for each: "nginx:foo, dump, hits 1: 0 places" */
static void
virshTracePrintTriggers(vshControl *ctl,
                        virJSONValue *session)
{
    virJSONValue *triggers;
    size_t n = virshTraceCount(session, "triggers", &triggers);
    size_t i;

    for (i = 0; i < n; i++) {
        virJSONValue *one = virJSONValueArrayGet(triggers, i);
        g_autofree char *at = virshTraceText(virJSONValueObjectGetString(one, "at"));
        g_autofree char *action = virshTraceText(virJSONValueObjectGetString(one, "do"));
        g_autofree char *text = NULL;
        unsigned long long places;

        if (virJSONValueObjectGetNumberUlong(one, "places", &places) == 0) {
            text = g_strdup_printf(_("%1$s, %2$s, hits %3$llu: %4$llu places"),
                                   at, action, virshTraceNumber(one, "hits"),
                                   places);
        } else {
            text = g_strdup_printf(_("%1$s, %2$s, hits %3$llu"), at, action,
                                   virshTraceNumber(one, "hits"));
        }
        virshTracePrintFact(ctl, _("Trigger:"), text);
    }
}

static void
virshTracePrintSession(vshControl *ctl,
                       virJSONValue *info)
{
    g_autofree char *vcpus = virshTraceList(info, "vcpus", false);
    g_autofree char *cr3s = virshTraceList(info, "cr3", true);
    g_autofree char *processes = virshTraceList(info, "processes", false);
    g_autofree char *size = virshTraceSize(virshTraceNumber(info, "bytes"));
    g_autofree char *waited = virshTraceSeconds(info, "paused-ns");
    g_autofree char *limited = virshTraceSeconds(info, "limited-ns");
    g_autofree char *cpu = virshTraceSeconds(info, "cpu-ns");
    g_autofree char *keeps = virshTraceKeeps(info);
    g_autofree char *split = NULL;
    g_autofree char *duration = NULL;
    unsigned long long number;
    double seconds;

    if (virJSONValueObjectGetNumberUlong(info, "split", &number) == 0)
        split = virshTraceSize(number);
    if (virJSONValueObjectGetNumberDouble(info, "duration", &seconds) == 0)
        duration = g_strdup_printf("%g s", seconds);

    virshTracePrintMember(ctl, _("Session:"), info, "session");
    virshTracePrintMember(ctl, _("Owner:"), info, "owner");
    virshTracePrintMember(ctl, _("State:"), info, "state");
    virshTracePrintMember(ctl, _("Mode:"), info, "mode");
    virshTracePrintMember(ctl, _("File:"), info, "file");
    virshTracePrintMember(ctl, _("Folder:"), info, "folder");
    virshTracePrintMember(ctl, _("Branches:"), info, "privilege");
    virshTracePrintFact(ctl, _("vCPUs:"), vcpus);
    virshTracePrintFact(ctl, _("CR3:"), cr3s);
    virshTracePrintFact(ctl, _("Processes:"), processes);
    virshTracePrintMember(ctl, _("Overflow:"), info, "overflow");
    virshTracePrintFact(ctl, _("Keeps:"), keeps);
    virshTracePrintFact(ctl, _("Split:"), split);
    virshTracePrintFact(ctl, _("Duration:"), duration);
    virshTracePrintTriggers(ctl, info);
    virshTracePrintMember(ctl, _("Started:"), info, "started");
    virshTracePrintMember(ctl, _("Ended:"), info, "ended");
    virshTracePrintMember(ctl, _("Why:"), info, "why");
    virshTracePrintMember(ctl, _("Recorded:"), info, "records");
    virshTracePrintMember(ctl, _("Left out:"), info, "filtered");
    virshTracePrintMember(ctl, _("Lost:"), info, "lost");
    virshTracePrintFact(ctl, _("Waited:"), waited);
    virshTracePrintFact(ctl, _("Limited:"), limited);
    virshTracePrintFact(ctl, _("CPU time:"), cpu);
    virshTracePrintFact(ctl, _("Size:"), size);
}

/* Members that are texts, for a table */
static char **
virshTraceFields(virJSONValue *info,
                 const char *const *names,
                 size_t n)
{
    char **fields = g_new0(char *, n + 1);
    size_t i;

    for (i = 0; i < n; i++) {
        const char *text = virJSONValueObjectGetString(info, names[i]);

        fields[i] = virshTraceText(text && *text ? text : "-");
    }

    return fields;
}

static int
virshTraceAddSession(vshTable *table,
                     virDomainPtr dom,
                     virJSONValue *info)
{
    static const char *const names[] = { "session", "owner", "mode", "file" };
    g_autofree char *state = virshTraceText(virshTraceState(info));
    g_autofree char *records = g_strdup_printf("%llu", virshTraceNumber(info, "records"));
    g_autofree char *lost = g_strdup_printf("%llu", virshTraceNumber(info, "lost"));
    g_autofree char *size = virshTraceSize(virshTraceNumber(info, "bytes"));
    g_auto(GStrv) fields = virshTraceFields(info, names, G_N_ELEMENTS(names));

    return vshTableRowAppend(table, virDomainGetName(dom), fields[0],
                             fields[1], state, fields[2], records, lost, size,
                             fields[3], NULL);
}

/* The counters of the device */
static int
virshTracePrintVcpus(vshControl *ctl,
                     virDomainPtr dom)
{
    static const char *const counters[] = {
        "cpu-index", "records", "drained", "lost", "paused-ns",
    };
    g_autoptr(vshTable) table = NULL;
    g_autoptr(virJSONValue) info = NULL;
    virJSONValue *arguments = NULL;
    virJSONValue *vcpus;
    size_t n;
    size_t i;

    if (!(info = virshTraceQmp(ctl, dom, NULL, "query-branch-trace",
                               &arguments)))
        return -1;

    if (!(table = vshTableNew(_("vCPU"), _("State"), _("Recorded"),
                              _("Drained"), _("Lost"), _("Waited"), NULL)))
        return -1;

    n = virshTraceCount(info, "vcpus", &vcpus);
    for (i = 0; i < n; i++) {
        virJSONValue *vcpu = virJSONValueArrayGet(vcpus, i);
        g_auto(GStrv) texts = g_new0(char *, G_N_ELEMENTS(counters) + 1);
        size_t j;

        for (j = 0; j < G_N_ELEMENTS(counters); j++) {
            unsigned long long value;

            if (virJSONValueObjectGetNumberUlong(vcpu, counters[j], &value) < 0) {
                vshError(ctl, "%s", _("the reply of QEMU is malformed"));
                return -1;
            }

            if (STREQ(counters[j], "paused-ns"))
                texts[j] = g_strdup_printf("%.3f s", value / 1e9);
            else
                texts[j] = g_strdup_printf("%llu", value);
        }

        if (vshTableRowAppend(table, texts[0], virshTraceState(vcpu), texts[1],
                              texts[2], texts[3], texts[4], NULL) < 0)
            return -1;
    }

    virshTracePrintFact(ctl, _("State:"), virshTraceState(info));
    vshPrint(ctl, "\n");
    vshTablePrintToStdout(table, ctl);
    return 0;
}

/* Report why one of many domains is left out, unless it cannot be traced. */
static void
virshTraceSkip(vshControl *ctl,
               virshTraceError *err,
               bool *failed)
{
    if (!err->unable) {
        vshError(ctl, "%s", err->message);
        *failed = true;
    }
}

/**
 * virshTracePrintAll:
 *
 * Print the sessions once.  If no domain is named, those that cannot be traced
 * are left out.  Errors of others are reported and set @failed; the rest is
 * printed.
 *
 * Returns the number of sessions that have not ended, or -1 on error.
 */
static int
virshTracePrintAll(vshControl *ctl,
                   const vshCmd *cmd,
                   virDomainPtr *domains,
                   int ndomains,
                   const char *session,
                   bool *failed)
{
    g_autoptr(vshTable) table = NULL;
    bool all = !vshCommandOptBool(cmd, "domain");
    bool json = vshCommandOptBool(cmd, "json");
    int active = 0;
    size_t i;

    if (!(table = vshTableNew(_("Domain"), _("Session"), _("Owner"),
                              _("State"), _("Mode"), _("Recorded"), _("Lost"),
                              _("Size"), _("File"), NULL)))
        return -1;

    for (i = 0; i < ndomains; i++) {
        g_autoptr(virJSONValue) info = NULL;
        g_auto(virshTraceError) err = { 0 };
        virJSONValue *sessions;
        size_t n;
        size_t j;

        if (!(info = virshTraceSimple(ctl, domains[i], all ? &err : NULL,
                                      "status", session, NULL))) {
            if (!all)
                return -1;

            virshTraceSkip(ctl, &err, failed);
            continue;
        }

        n = virshTraceCount(info, "sessions", &sessions);
        for (j = 0; j < n; j++) {
            virJSONValue *one = virJSONValueArrayGet(sessions, j);

            active += !virshTraceHasEnded(one);
            if (json)
                continue;
            if (session) {
                if (j)
                    vshPrint(ctl, "\n");
                virshTracePrintSession(ctl, one);
            } else if (virshTraceAddSession(table, domains[i], one) < 0) {
                return -1;
            }
        }

        if (json && virshTracePrintJSON(ctl, domains[i], info) < 0)
            return -1;
    }

    if (!json && !session)
        vshTablePrintToStdout(table, ctl);

    return active;
}

static int
virshTracePrint(vshControl *ctl,
                const vshCmd *cmd,
                const char *session,
                bool *failed)
{
    virDomainPtr *domains = NULL;
    int n = virshTraceDomains(ctl, cmd, &domains);
    int active = -1;

    *failed = false;
    if (n >= 0 && vshCommandOptBool(cmd, "vcpus")) {
        if (virshTracePrintVcpus(ctl, domains[0]) == 0)
            active = virshTraceIsCaptured(ctl, domains[0]);
    } else if (n >= 0) {
        active = virshTracePrintAll(ctl, cmd, domains, n, session, failed);
    }

    virshTraceDomainsFree(domains, n);
    fflush(stdout);
    return active;
}

static bool
cmdTraceStatus(vshControl *ctl, const vshCmd *cmd)
{
    unsigned int interval = 1;
    const char *session = NULL;
    bool failed = false;
    int active;

    VSH_REQUIRE_OPTION("interval", "watch");
    VSH_REQUIRE_OPTION("session", "domain");
    VSH_REQUIRE_OPTION("vcpus", "domain");
    VSH_EXCLUSIVE_OPTIONS("vcpus", "json");
    VSH_EXCLUSIVE_OPTIONS("vcpus", "session");

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0 ||
        vshCommandOptUInt(ctl, cmd, "interval", &interval) < 0)
        return false;

    if (interval == 0 || interval > INT_MAX / 1000) {
        vshError(ctl, _("an interval of %1$u seconds is out of range"),
                 interval);
        return false;
    }

    active = virshTracePrint(ctl, cmd, session, &failed);
    if (!vshCommandOptBool(cmd, "watch") || active <= 0)
        return active >= 0 && !failed;

    if (vshEventStart(ctl, interval * 1000) < 0)
        return false;

    while (active > 0) {
        int event = vshEventWait(ctl);

        if (event != VSH_EVENT_TIMEOUT) {
            active = event < 0 ? -1 : 0;
            break;
        }

        if (vshCommandOptBool(cmd, "domain")) {
            g_autoptr(virshDomain) dom = virshCommandOptDomain(ctl, cmd, NULL);

            if (!dom || virDomainIsActive(dom) == 0) {
                vshResetLibvirtError();
                vshPrintExtra(ctl, "%s", _("The domain has ended, and its sessions with it\n"));
                active = 0;
                break;
            }
        }

        active = virshTracePrint(ctl, cmd, session, &failed);
    }

    vshEventCleanup(ctl);
    return active >= 0 && !failed;
}

/*
 * "trace-list" command
 */
static const vshCmdInfo info_trace_list = {
    .help = N_("list the traces of domains"),
    .desc = N_("List the traces of a domain, running or not, or of all running "
               "ones, and their folder on the domain's host."),
};

static const vshCmdOptDef opts_trace_list[] = {
    VIRSH_TRACE_OPT_DOMAIN(N_("domain name, id or uuid (default: all running ones)"), 0),
    VIRSH_TRACE_OPT_JSON,
    {.name = NULL}
};

/*
 * The agent can only be asked through a running QEMU.  For a domain that is off
 * any other one of its host and user will do.
 */
static virJSONValue *
virshTraceListShutOff(vshControl *ctl,
                      virDomainPtr dom)
{
    virshControl *priv = ctl->privData;
    const char *name = virDomainGetName(dom);
    char uuid[VIR_UUID_STRING_BUFLEN] = "";
    g_auto(virshTraceError) err = { 0 };
    virDomainPtr *others = NULL;
    virJSONValue *ret = NULL;
    int nothers;
    size_t i;

    ignore_value(virDomainGetUUIDString(dom, uuid));
    if ((nothers = virConnectListAllDomains(priv->conn, &others,
                                            VIR_CONNECT_LIST_DOMAINS_ACTIVE)) < 0)
        return NULL;

    for (i = 0; i < nothers && !ret; i++) {
        g_autoptr(virJSONValue) command = NULL;
        g_auto(virshTraceError) why = { 0 };

        if (virJSONValueObjectAdd(&command,
                                  "s:do", "list",
                                  "s:guest", name,
                                  "s:uuid", uuid,
                                  NULL) < 0) {
            vshSaveLibvirtError();
            break;
        }

        if (!(ret = virshTraceAgent(ctl, others[i], &why, &command)) &&
            !why.unable)
            virshTraceFail(ctl, &err, false, g_steal_pointer(&why.message));
    }

    if (!ret && err.message) {
        vshError(ctl, _("domain '%1$s' is not running, and its traces cannot be listed through another one: %2$s"),
                 name, err.message);
    } else if (!ret) {
        vshError(ctl, _("domain '%1$s' is not running, and no running domain can be asked for its traces; on its host, 'ls /var/lib/backtrail/traces/%1$s' lists them, unless backtraild.conf names another folder"),
                 name);
    }

    virshTraceDomainsFree(others, nothers);
    return ret;
}

static int
virshTraceAddTrace(vshTable *table,
                   virDomainPtr dom,
                   virJSONValue *info)
{
    static const char *const names[] = { "file", "session", "state", "begin" };
    g_autofree char *records = g_strdup_printf("%llu", virshTraceNumber(info, "records"));
    g_autofree char *size = virshTraceSize(virshTraceNumber(info, "bytes"));
    g_auto(GStrv) fields = virshTraceFields(info, names, G_N_ELEMENTS(names));

    return vshTableRowAppend(table, virDomainGetName(dom), fields[0],
                             fields[1], fields[2], records, size, fields[3],
                             NULL);
}

static bool
cmdTraceList(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(vshTable) table = NULL;
    g_auto(virBuffer) folders = VIR_BUFFER_INITIALIZER;
    virDomainPtr *domains = NULL;
    bool all = !vshCommandOptBool(cmd, "domain");
    bool json = vshCommandOptBool(cmd, "json");
    bool failed = false;
    bool ret = false;
    int ndomains;
    size_t i;

    if ((ndomains = virshTraceDomains(ctl, cmd, &domains)) < 0)
        return false;

    if (!(table = vshTableNew(_("Domain"), _("File"), _("Session"), _("State"),
                              _("Recorded"), _("Size"), _("Begin"), NULL)))
        goto cleanup;

    for (i = 0; i < ndomains; i++) {
        g_autoptr(virJSONValue) info = NULL;
        g_auto(virshTraceError) err = { 0 };
        g_autofree char *folder = NULL;
        virJSONValue *traces;
        size_t n;
        size_t j;

        if (!all && virDomainIsActive(domains[i]) == 0)
            info = virshTraceListShutOff(ctl, domains[i]);
        else
            info = virshTraceSimple(ctl, domains[i], all ? &err : NULL, "list",
                                    NULL, NULL);

        if (!info) {
            if (!all)
                goto cleanup;

            virshTraceSkip(ctl, &err, &failed);
            continue;
        }

        n = virshTraceCount(info, "traces", &traces);
        for (j = 0; !json && j < n; j++) {
            if (virshTraceAddTrace(table, domains[i],
                                   virJSONValueArrayGet(traces, j)) < 0)
                goto cleanup;
        }

        folder = virshTraceText(virJSONValueObjectGetString(info, "folder"));
        if (*folder) {
            virBufferAsprintf(&folders, _("Folder of domain '%1$s' on its host: %2$s\n"),
                              virDomainGetName(domains[i]), folder);
        }

        if (json && virshTracePrintJSON(ctl, domains[i], info) < 0)
            goto cleanup;
    }

    if (!json) {
        vshTablePrintToStdout(table, ctl);
        vshPrintExtra(ctl, "\n%s", NULLSTR_EMPTY(virBufferCurrentContent(&folders)));
    }
    ret = !failed;

 cleanup:
    virshTraceDomainsFree(domains, ndomains);
    return ret;
}

const vshCmdDef traceCmds[] = {
    {.name = "trace-dump",
     .handler = cmdTraceDump,
     .opts = opts_trace_dump,
     .info = &info_trace_dump,
     .flags = 0
    },
    {.name = "trace-list",
     .handler = cmdTraceList,
     .opts = opts_trace_list,
     .info = &info_trace_list,
     .flags = 0
    },
    {.name = "trace-start",
     .handler = cmdTraceStart,
     .opts = opts_trace_start,
     .info = &info_trace_start,
     .flags = 0
    },
    {.name = "trace-status",
     .handler = cmdTraceStatus,
     .opts = opts_trace_status,
     .info = &info_trace_status,
     .flags = 0
    },
    {.name = "trace-stop",
     .handler = cmdTraceStop,
     .opts = opts_trace_stop,
     .info = &info_trace_stop,
     .flags = 0
    },
    {.name = NULL}
};
