/*
 * virsh-trace.c: Commands to trace the branches of a domain
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace.h"
#include "virsh-util.h"

#include <libvirt/libvirt-qemu.h>

#include "internal.h"
#include "viralloc.h"
#include "virbitmap.h"
#include "virjson.h"
#include "virstring.h"
#include "virxml.h"
#include "vsh-table.h"

/* The limits of QEMU's branch-trace device */
#define VIRSH_TRACE_MAX_VCPUS 1024
#define VIRSH_TRACE_MAX_CR3S 64

/* How often a wait looks at the session */
#define VIRSH_TRACE_POLL_MS 500

#define VIRSH_TRACE_DEFAULT_SESSION "virsh"

static const char *const virshTraceOverflow[] = {
    "pause", "drop", "overwrite", NULL
};

/**
 * virshTraceCommand:
 * @ctl: virsh control structure
 * @dom: a domain that runs
 * @quiet: don't report that QEMU refuses
 * @name: QMP command
 * @arguments: its arguments, stolen; NULL for none
 *
 * Returns what the command returned, or NULL after having reported an error.
 */
static virJSONValue *
virshTraceCommand(vshControl *ctl,
                  virDomainPtr dom,
                  bool quiet,
                  const char *name,
                  virJSONValue **arguments)
{
    g_autoptr(virJSONValue) command = NULL;
    g_autoptr(virJSONValue) reply = NULL;
    g_autofree char *commandstr = NULL;
    g_autofree char *replystr = NULL;
    virJSONValue *error;
    virJSONValue *ret;
    const char *klass;
    const char *desc;

    if (virJSONValueObjectAdd(&command,
                              "s:execute", name,
                              "A:arguments", arguments,
                              NULL) < 0 ||
        !(commandstr = virJSONValueToString(command, false))) {
        vshSaveLibvirtError();
        return NULL;
    }

    if (virDomainQemuMonitorCommand(dom, commandstr, &replystr, 0) < 0)
        return NULL;

    if (!(reply = virJSONValueFromString(replystr)) ||
        !virJSONValueIsObject(reply)) {
        vshResetLibvirtError();
        vshError(ctl, _("the reply of QEMU to '%1$s' is malformed"), name);
        return NULL;
    }

    if ((ret = virJSONValueObjectStealObject(reply, "return")))
        return ret;

    if (!(error = virJSONValueObjectGetObject(reply, "error"))) {
        vshError(ctl, _("the reply of QEMU to '%1$s' is malformed"), name);
        return NULL;
    }

    klass = virJSONValueObjectGetString(error, "class");
    desc = virJSONValueObjectGetString(error, "desc");

    if (quiet)
        return NULL;

    if (STREQ_NULLABLE(klass, "CommandNotFound")) {
        vshError(ctl,
                 _("the QEMU of domain '%1$s' is not able to trace branches"),
                 virDomainGetName(dom));
    } else if (STREQ_NULLABLE(klass, "DeviceNotFound")) {
        vshError(ctl,
                 _("domain '%1$s' has no branch-trace device; it has to be started with one"),
                 virDomainGetName(dom));
    } else {
        vshError(ctl, _("domain '%1$s': %2$s"),
                 virDomainGetName(dom), NULLSTR(desc));
    }
    return NULL;
}

/* The session that is active, or the last one */
static virJSONValue *
virshTraceQuery(vshControl *ctl,
                virDomainPtr dom,
                bool quiet)
{
    virJSONValue *arguments = NULL;

    return virshTraceCommand(ctl, dom, quiet, "query-branch-trace", &arguments);
}

static const char *
virshTraceState(virJSONValue *info)
{
    const char *state = virJSONValueObjectGetString(info, "state");

    return state ? state : "unknown";
}

static bool
virshTraceIsActive(virJSONValue *info)
{
    return STRNEQ(virshTraceState(info), "inactive");
}

/* The sum of a counter of all vCPUs */
static unsigned long long
virshTraceSum(virJSONValue *info,
              const char *counter)
{
    virJSONValue *vcpus = virJSONValueObjectGetArray(info, "vcpus");
    unsigned long long sum = 0;
    size_t i;

    for (i = 0; vcpus && i < virJSONValueArraySize(vcpus); i++) {
        unsigned long long value = 0;

        ignore_value(virJSONValueObjectGetNumberUlong(virJSONValueArrayGet(vcpus, i),
                                                      counter, &value));
        sum += value;
    }

    return sum;
}

static void
virshTracePrintSums(vshControl *ctl,
                    virJSONValue *info)
{
    vshPrintExtra(ctl, _("%1$llu branches recorded, %2$llu lost, %3$.3f s waited\n"),
                  virshTraceSum(info, "records"),
                  virshTraceSum(info, "lost"),
                  virshTraceSum(info, "paused-ns") / 1e9);
}

/**
 * virshTraceStop:
 * @session: its name, or NULL for that which is active
 *
 * Returns the session as it ended, or NULL after having reported an error.
 */
static virJSONValue *
virshTraceStop(vshControl *ctl,
               virDomainPtr dom,
               const char *session)
{
    g_autoptr(virJSONValue) info = NULL;
    g_autoptr(virJSONValue) arguments = NULL;

    if (!session) {
        if (!(info = virshTraceQuery(ctl, dom, false)))
            return NULL;

        if (!virshTraceIsActive(info) ||
            !(session = virJSONValueObjectGetString(info, "session"))) {
            vshError(ctl, _("domain '%1$s' is not being traced"),
                     virDomainGetName(dom));
            return NULL;
        }
    }

    if (virJSONValueObjectAdd(&arguments, "s:session", session, NULL) < 0) {
        vshSaveLibvirtError();
        return NULL;
    }

    return virshTraceCommand(ctl, dom, false, "branch-trace-stop", &arguments);
}

/*
 * Completers
 */
static char **
virshTraceSessionCompleter(vshControl *ctl,
                           const vshCmd *cmd,
                           unsigned int flags)
{
    virshControl *priv = ctl->privData;
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(virJSONValue) info = NULL;
    const char *session;
    char **ret;

    virCheckFlags(0, NULL);

    if (!priv->conn || virConnectIsAlive(priv->conn) <= 0)
        return NULL;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        !(info = virshTraceQuery(ctl, dom, true)) ||
        !virshTraceIsActive(info) ||
        !(session = virJSONValueObjectGetString(info, "session")))
        return NULL;

    ret = g_new0(char *, 2);
    ret[0] = g_strdup(session);
    return ret;
}

static char **
virshTraceOverflowCompleter(vshControl *ctl G_GNUC_UNUSED,
                            const vshCmd *cmd G_GNUC_UNUSED,
                            unsigned int flags)
{
    virCheckFlags(0, NULL);

    return g_strdupv((char **) virshTraceOverflow);
}

static char **
virshTraceVcpusCompleter(vshControl *ctl,
                         const vshCmd *cmd,
                         unsigned int flags)
{
    g_autoptr(virshDomain) dom = NULL;
    g_auto(GStrv) vcpulist = NULL;
    const char *vcpus = NULL;
    int nvcpus;
    size_t i;

    virCheckFlags(0, NULL);

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        vshCommandOptStringQuiet(ctl, cmd, "vcpus", &vcpus) < 0 ||
        (nvcpus = virDomainGetMaxVcpus(dom)) < 0)
        return NULL;

    vcpulist = g_new0(char *, nvcpus + 1);

    for (i = 0; i < nvcpus; i++)
        vcpulist[i] = g_strdup_printf("%zu", i);

    return virshCommaStringListComplete(vcpus, (const char **) vcpulist);
}

/*
 * "trace-start" command
 */
static const vshCmdInfo info_trace_start = {
    .help = N_("start tracing the branches of a domain"),
    .desc = N_("Record each branch that a running domain takes, and hand them "
               "to an agent on the domain's host. The domain needs a "
               "branch-trace device."),
};

static const vshCmdOptDef opts_trace_start[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    {.name = "session",
     .type = VSH_OT_STRING,
     .completer = virshCompleteEmpty,
     .help = N_("name of the session (default: virsh)"),
    },
    {.name = "agent",
     .type = VSH_OT_STRING,
     .completer = virshCompleteEmpty,
     .help = N_("unix socket of the agent on the domain's host (default: as the device says)"),
    },
    {.name = "vcpus",
     .type = VSH_OT_STRING,
     .completer = virshTraceVcpusCompleter,
     .help = N_("trace these vCPUs, such as 0,2-3 (default: all)"),
    },
    {.name = "user",
     .type = VSH_OT_BOOL,
     .help = N_("trace branches in user mode"),
    },
    {.name = "kernel",
     .type = VSH_OT_BOOL,
     .help = N_("trace branches in kernel mode (default: both)"),
    },
    {.name = "overflow",
     .type = VSH_OT_STRING,
     .completer = virshTraceOverflowCompleter,
     .help = N_("when the buffer is full: pause the vCPU, drop new records, or overwrite old ones (default: pause)"),
    },
    {.name = "buffer-size",
     .type = VSH_OT_INT,
     .help = N_("KiB of buffer for each vCPU, as scaled integer (default: 2048)"),
    },
    {.name = "agent-timeout",
     .type = VSH_OT_INT,
     .help = N_("milliseconds that a paused domain waits for an agent that hangs or dies, 0 for ever (default: 5000)"),
    },
    {.name = "wait",
     .type = VSH_OT_BOOL,
     .help = N_("wait until the session ends; on interrupt, stop it"),
    },
    {.name = "duration",
     .type = VSH_OT_INT,
     .help = N_("with --wait, stop it after this many seconds"),
    },
    {.name = "verbose",
     .type = VSH_OT_BOOL,
     .help = N_("with --wait, display the progress"),
    },
    {.name = "cr3",
     .type = VSH_OT_ARGV,
     .completer = virshCompleteEmpty,
     .help = N_("trace these address spaces only, given as values of CR3 (default: all)"),
    },
    {.name = NULL}
};

/* Returns 0, with NULL if the option is not given, or -1 on error */
static int
virshTraceGetVcpus(vshControl *ctl,
                   const vshCmd *cmd,
                   virBitmap **bitmap)
{
    const char *vcpus = NULL;

    if (vshCommandOptString(ctl, cmd, "vcpus", &vcpus) < 0)
        return -1;

    if (!vcpus)
        return 0;

    if (virBitmapParse(vcpus, bitmap, VIRSH_TRACE_MAX_VCPUS) < 0 ||
        virBitmapIsAllClear(*bitmap)) {
        vshResetLibvirtError();
        vshError(ctl, _("'%1$s' is not a list of vCPUs, such as 0,2-3"), vcpus);
        return -1;
    }

    return 0;
}

static int
virshTraceGetCr3s(vshControl *ctl,
                  const vshCmd *cmd,
                  virJSONValue **array)
{
    const char **cr3 = vshCommandOptArgv(cmd, "cr3");
    size_t n = 0;

    if (!cr3)
        return 0;

    *array = virJSONValueNewArray();
    for (; *cr3; cr3++) {
        g_autoptr(virJSONValue) number = NULL;
        unsigned long long value;

        if (virStrToLong_ullp(*cr3, NULL, 0, &value) < 0) {
            vshError(ctl, _("'%1$s' is not a value of CR3, such as 0x1234000"),
                     *cr3);
            return -1;
        }

        if (++n > VIRSH_TRACE_MAX_CR3S) {
            vshError(ctl, _("no more than %1$d values of CR3 can be given"),
                     VIRSH_TRACE_MAX_CR3S);
            return -1;
        }

        number = virJSONValueNewNumberUlong(value);
        if (virJSONValueArrayAppend(*array, &number) < 0) {
            vshSaveLibvirtError();
            return -1;
        }
    }

    return 0;
}

/* The arguments of branch-trace-start */
static virJSONValue *
virshTraceStartArguments(vshControl *ctl,
                         const vshCmd *cmd,
                         const char *session)
{
    g_autoptr(virJSONValue) arguments = NULL;
    g_autoptr(virJSONValue) agent = NULL;
    g_autoptr(virJSONValue) cr3s = NULL;
    g_autoptr(virBitmap) vcpus = NULL;
    const char *agentpath = NULL;
    const char *overflow = NULL;
    const char *privilege = NULL;
    bool user = vshCommandOptBool(cmd, "user");
    unsigned long long bufferSize = 0;
    unsigned int timeout = 0;
    int hasTimeout;

    if (user != vshCommandOptBool(cmd, "kernel"))
        privilege = user ? "user" : "kernel";

    if (vshCommandOptString(ctl, cmd, "agent", &agentpath) < 0 ||
        vshCommandOptString(ctl, cmd, "overflow", &overflow) < 0 ||
        vshCommandOptScaledInt(ctl, cmd, "buffer-size", &bufferSize,
                               1024, LLONG_MAX) < 0 ||
        (hasTimeout = vshCommandOptUInt(ctl, cmd, "agent-timeout", &timeout)) < 0 ||
        virshTraceGetVcpus(ctl, cmd, &vcpus) < 0 ||
        virshTraceGetCr3s(ctl, cmd, &cr3s) < 0)
        return NULL;

    if (overflow && !g_strv_contains(virshTraceOverflow, overflow)) {
        vshError(ctl, _("'%1$s' is not one of pause, drop and overwrite"),
                 overflow);
        return NULL;
    }

    if (agentpath) {
        if (*agentpath != '/') {
            vshError(ctl,
                     _("'%1$s' is not an absolute path on the domain's host"),
                     agentpath);
            return NULL;
        }

        if (virJSONValueObjectAdd(&agent,
                                  "s:type", "unix",
                                  "s:path", agentpath,
                                  NULL) < 0) {
            vshSaveLibvirtError();
            return NULL;
        }
    }

    if (virJSONValueObjectAdd(&arguments,
                              "s:session", session,
                              "A:agent", &agent,
                              "M:vcpus", vcpus,
                              "S:privilege", privilege,
                              "A:cr3", &cr3s,
                              "S:overflow", overflow,
                              "P:buffer-size", bufferSize,
                              NULL) < 0 ||
        (hasTimeout &&
         virJSONValueObjectAdd(&arguments, "u:agent-timeout", timeout, NULL) < 0)) {
        vshSaveLibvirtError();
        return NULL;
    }

    return g_steal_pointer(&arguments);
}

/**
 * virshTraceWait:
 * @session: that has been started
 * @duration: stop it after this many seconds; 0 for never
 *
 * Wait until the session ends, and stop it on interrupt.  The domain may end
 * before it does.
 *
 * Returns false if it did not end in order, after having said so.
 */
static bool
virshTraceWait(vshControl *ctl,
               virDomainPtr dom,
               const char *session,
               unsigned int duration,
               bool verbose)
{
    gint64 end = g_get_monotonic_time() + duration * G_USEC_PER_SEC;
    bool ret = false;

    if (vshEventStart(ctl, VIRSH_TRACE_POLL_MS) < 0)
        return false;

    while (true) {
        g_autoptr(virJSONValue) info = NULL;
        const char *current;
        int event = vshEventWait(ctl);

        if (event < 0)
            break;

        if (virDomainIsActive(dom) == 0) {
            vshPrintExtra(ctl, "%s", _("The domain has ended, and its session with it\n"));
            ret = true;
            break;
        }

        if (!(info = virshTraceQuery(ctl, dom, false))) {
            /* It may have ended meanwhile. */
            if (virDomainIsActive(dom) == 0) {
                vshResetLibvirtError();
                continue;
            }
            break;
        }

        current = virJSONValueObjectGetString(info, "session");
        if (!virshTraceIsActive(info) || STRNEQ_NULLABLE(current, session)) {
            if (verbose)
                vshPrintExtra(ctl, "\n");
            vshPrintExtra(ctl, _("Session '%1$s' has ended\n"), session);
            if (STREQ_NULLABLE(current, session))
                virshTracePrintSums(ctl, info);
            ret = true;
            break;
        }

        if (verbose) {
            vshPrintExtra(ctl, _("\r%1$s: %2$llu branches recorded, %3$llu lost "),
                          virshTraceState(info),
                          virshTraceSum(info, "records"),
                          virshTraceSum(info, "lost"));
            fflush(stdout);
        }

        if (event == VSH_EVENT_INTERRUPT ||
            (duration && g_get_monotonic_time() >= end)) {
            g_autoptr(virJSONValue) last = virshTraceStop(ctl, dom, session);

            if (verbose)
                vshPrintExtra(ctl, "\n");
            if (!last)
                break;

            vshPrintExtra(ctl, _("Session '%1$s' stopped\n"), session);
            virshTracePrintSums(ctl, last);
            ret = true;
            break;
        }
    }

    vshEventCleanup(ctl);
    return ret;
}

static bool
cmdTraceStart(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(virJSONValue) arguments = NULL;
    g_autoptr(virJSONValue) started = NULL;
    const char *session = NULL;
    unsigned int duration = 0;
    int rc;

    VSH_REQUIRE_OPTION("duration", "wait");
    VSH_REQUIRE_OPTION("verbose", "wait");

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0)
        return false;

    if (!session)
        session = VIRSH_TRACE_DEFAULT_SESSION;

    if ((rc = vshCommandOptUInt(ctl, cmd, "duration", &duration)) < 0)
        return false;

    if (rc > 0 && !duration) {
        vshError(ctl, "%s", _("a duration of 0 seconds is too short"));
        return false;
    }

    if (!(arguments = virshTraceStartArguments(ctl, cmd, session)))
        return false;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return false;

    if (!(started = virshTraceCommand(ctl, dom, false, "branch-trace-start",
                                      &arguments)))
        return false;

    vshPrintExtra(ctl, _("Domain '%1$s' is being traced by session '%2$s'\n"),
                  virDomainGetName(dom), session);

    if (vshCommandOptBool(cmd, "wait"))
        return virshTraceWait(ctl, dom, session, duration,
                              vshCommandOptBool(cmd, "verbose"));

    return true;
}

/*
 * "trace-stop" command
 */
static const vshCmdInfo info_trace_stop = {
    .help = N_("stop tracing the branches of a domain"),
    .desc = N_("End a session. All that was recorded still reaches its agent."),
};

static const vshCmdOptDef opts_trace_stop[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    {.name = "session",
     .type = VSH_OT_STRING,
     .completer = virshTraceSessionCompleter,
     .help = N_("name of the session (default: that which is active)"),
    },
    {.name = NULL}
};

static bool
cmdTraceStop(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    g_autoptr(virJSONValue) info = NULL;
    const char *session = NULL;

    if (vshCommandOptString(ctl, cmd, "session", &session) < 0)
        return false;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)) ||
        !(info = virshTraceStop(ctl, dom, session)))
        return false;

    vshPrintExtra(ctl, _("Session '%1$s' stopped\n"),
                  NULLSTR(virJSONValueObjectGetString(info, "session")));
    virshTracePrintSums(ctl, info);
    return true;
}

/*
 * "trace-status" command
 */
static const vshCmdInfo info_trace_status = {
    .help = N_("show how the branches of a domain are traced"),
    .desc = N_("Show the session that is active, or the last one, and what it "
               "has recorded of each vCPU."),
};

static const vshCmdOptDef opts_trace_status[] = {
    VIRSH_COMMON_OPT_DOMAIN_FULL(VIR_CONNECT_LIST_DOMAINS_ACTIVE),
    {.name = "watch",
     .type = VSH_OT_BOOL,
     .help = N_("show it again and again, until the session ends or on interrupt"),
    },
    {.name = "interval",
     .type = VSH_OT_INT,
     .help = N_("with --watch, how many seconds to wait in between (default: 1)"),
    },
    {.name = NULL}
};

static void
virshTracePrintHead(vshControl *ctl,
                    virJSONValue *info)
{
    const char *session = virJSONValueObjectGetString(info, "session");
    const char *privilege = virJSONValueObjectGetString(info, "privilege");
    const char *overflow = virJSONValueObjectGetString(info, "overflow");
    virJSONValue *cr3s = virJSONValueObjectGetArray(info, "cr3");
    unsigned long long bufferSize;
    unsigned int timeout;
    size_t i;

    vshPrint(ctl, "%-15s %s\n", _("State:"), virshTraceState(info));
    if (session)
        vshPrint(ctl, "%-15s %s\n", _("Session:"), session);
    if (privilege)
        vshPrint(ctl, "%-15s %s\n", _("Branches:"), privilege);
    for (i = 0; cr3s && i < virJSONValueArraySize(cr3s); i++) {
        unsigned long long cr3;

        if (virJSONValueGetNumberUlong(virJSONValueArrayGet(cr3s, i), &cr3) == 0)
            vshPrint(ctl, "%-15s 0x%llx\n", _("CR3:"), cr3);
    }
    if (overflow)
        vshPrint(ctl, "%-15s %s\n", _("Overflow:"), overflow);
    if (virJSONValueObjectGetNumberUlong(info, "buffer-size", &bufferSize) == 0)
        vshPrint(ctl, "%-15s %llu KiB\n", _("Buffer size:"), bufferSize / 1024);
    if (virJSONValueObjectGetNumberUint(info, "agent-timeout", &timeout) == 0)
        vshPrint(ctl, "%-15s %u ms\n", _("Agent timeout:"), timeout);
    vshPrint(ctl, "\n");
}

static bool
virshTracePrintVcpus(vshControl *ctl,
                     virJSONValue *info)
{
    g_autoptr(vshTable) table = NULL;
    virJSONValue *vcpus = virJSONValueObjectGetArray(info, "vcpus");
    size_t i;

    if (!vcpus || virJSONValueArraySize(vcpus) == 0)
        return true;

    if (!(table = vshTableNew(_("vCPU"), _("State"), _("Recorded"),
                              _("Drained"), _("Lost"), _("Waited"), NULL)))
        return false;

    for (i = 0; i < virJSONValueArraySize(vcpus); i++) {
        virJSONValue *vcpu = virJSONValueArrayGet(vcpus, i);
        static const char *const counters[] = {
            "cpu-index", "records", "drained", "lost", "paused-ns",
        };
        unsigned long long values[G_N_ELEMENTS(counters)] = { 0 };
        g_autofree char *index = NULL;
        g_autofree char *records = NULL;
        g_autofree char *drained = NULL;
        g_autofree char *lost = NULL;
        g_autofree char *waited = NULL;
        size_t j;

        for (j = 0; j < G_N_ELEMENTS(counters); j++) {
            if (virJSONValueObjectGetNumberUlong(vcpu, counters[j],
                                                 &values[j]) < 0) {
                vshError(ctl, "%s", _("the reply of QEMU is malformed"));
                return false;
            }
        }

        index = g_strdup_printf("%llu", values[0]);
        records = g_strdup_printf("%llu", values[1]);
        drained = g_strdup_printf("%llu", values[2]);
        lost = g_strdup_printf("%llu", values[3]);
        waited = g_strdup_printf("%.3f s", values[4] / 1e9);
        if (vshTableRowAppend(table, index, virshTraceState(vcpu), records,
                              drained, lost, waited, NULL) < 0)
            return false;
    }

    vshTablePrintToStdout(table, ctl);
    return true;
}

/* Returns 1 if the session is active, 0 if it is not, -1 on error */
static int
virshTracePrint(vshControl *ctl,
                virDomainPtr dom)
{
    g_autoptr(virJSONValue) info = NULL;

    if (!(info = virshTraceQuery(ctl, dom, false)))
        return -1;

    virshTracePrintHead(ctl, info);
    if (!virshTracePrintVcpus(ctl, info))
        return -1;

    fflush(stdout);
    return virshTraceIsActive(info);
}

static bool
cmdTraceStatus(vshControl *ctl, const vshCmd *cmd)
{
    g_autoptr(virshDomain) dom = NULL;
    unsigned int interval = 1;
    int active;

    VSH_REQUIRE_OPTION("interval", "watch");

    if (vshCommandOptUInt(ctl, cmd, "interval", &interval) < 0)
        return false;

    if (interval == 0 || interval > INT_MAX / 1000) {
        vshError(ctl, _("an interval of %1$u seconds is out of range"),
                 interval);
        return false;
    }

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return false;

    active = virshTracePrint(ctl, dom);
    if (!vshCommandOptBool(cmd, "watch") || active <= 0)
        return active >= 0;

    if (vshEventStart(ctl, interval * 1000) < 0)
        return false;

    while (active > 0) {
        int event = vshEventWait(ctl);

        if (event != VSH_EVENT_TIMEOUT) {
            active = event < 0 ? -1 : 0;
            break;
        }

        if (virDomainIsActive(dom) == 0) {
            vshPrintExtra(ctl, "%s", _("The domain has ended, and its session with it\n"));
            active = 0;
            break;
        }

        active = virshTracePrint(ctl, dom);
    }

    vshEventCleanup(ctl);
    return active >= 0;
}

/*
 * "trace-list" command
 */
static const vshCmdInfo info_trace_list = {
    .help = N_("list the domains that can be traced, and their sessions"),
    .desc = N_("List the running domains that have a branch-trace device, and "
               "the session of each."),
};

static const vshCmdOptDef opts_trace_list[] = {
    {.name = "active",
     .type = VSH_OT_BOOL,
     .help = N_("list only those that are being traced"),
    },
    {.name = NULL}
};

static bool
cmdTraceList(vshControl *ctl, const vshCmd *cmd)
{
    virshControl *priv = ctl->privData;
    g_autoptr(vshTable) table = NULL;
    virDomainPtr *domains = NULL;
    bool onlyActive = vshCommandOptBool(cmd, "active");
    bool ret = false;
    int n;
    size_t i;

    if ((n = virConnectListAllDomains(priv->conn, &domains,
                                      VIR_CONNECT_LIST_DOMAINS_ACTIVE)) < 0)
        return false;

    if (!(table = vshTableNew(_("Id"), _("Name"), _("State"), _("Session"),
                              _("Recorded"), _("Lost"), NULL)))
        goto cleanup;

    for (i = 0; i < n; i++) {
        g_autoptr(virJSONValue) info = NULL;
        g_autofree char *id = NULL;
        g_autofree char *records = NULL;
        g_autofree char *lost = NULL;
        const char *session;

        if (!(info = virshTraceQuery(ctl, domains[i], true))) {
            /* It has no device, or has ended meanwhile. */
            vshResetLibvirtError();
            continue;
        }

        if (onlyActive && !virshTraceIsActive(info))
            continue;

        session = virJSONValueObjectGetString(info, "session");
        id = g_strdup_printf("%u", virDomainGetID(domains[i]));
        records = g_strdup_printf("%llu", virshTraceSum(info, "records"));
        lost = g_strdup_printf("%llu", virshTraceSum(info, "lost"));
        if (vshTableRowAppend(table, id, virDomainGetName(domains[i]),
                              virshTraceState(info), session ? session : "-",
                              records, lost, NULL) < 0)
            goto cleanup;
    }

    vshTablePrintToStdout(table, ctl);
    ret = true;

 cleanup:
    for (i = 0; i < n; i++)
        virshDomainFree(domains[i]);
    g_free(domains);
    return ret;
}

const vshCmdDef traceCmds[] = {
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
