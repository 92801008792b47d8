/*
 * virsh-trace-agent.c: Ask the trace agent of a domain, and its QEMU
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>
#include "virsh-trace-agent.h"
#include "virsh-trace-answer.h"
#include "virsh-trace-text.h"

#include <libvirt/libvirt-qemu.h>

#include "virstring.h"

/* How long QEMU waits for its agent before it reports an error */
#define VIRSH_TRACE_TIMEOUT_MS 30000

void
virshTraceErrorClear(virshTraceError *err)
{
    g_clear_pointer(&err->message, g_free);
    err->unable = false;
}

/* Stores an error in @err, or reports it if that is NULL. */
void
virshTraceFail(vshControl *ctl,
               virshTraceError *err,
               bool unable,
               const char *format,
               ...)
{
    g_autofree char *message = NULL;
    va_list args;

    va_start(args, format);
    message = g_strdup_vprintf(format, args);
    va_end(args);

    if (err) {
        virshTraceErrorClear(err);
        err->unable = unable;
        err->message = g_steal_pointer(&message);
    } else {
        virshTraceComplain(ctl, "%s", message);
    }
}

/* Stores the error of a libvirt function that has failed in @err.  If that is
 * NULL, reports the error as virsh does. */
static void
virshTraceFailLibvirt(vshControl *ctl,
                      virDomainPtr dom,
                      virshTraceError *err)
{
    int code = virGetLastErrorCode();
    /* Any other call resets it. */
    g_autofree char *why = g_strdup(virGetLastErrorMessage());
    bool unable;

    if (!err) {
        virshTraceComplain(ctl, "%s", why);
        vshResetLibvirtError();
        return;
    }

    unable = code == VIR_ERR_NO_DOMAIN || code == VIR_ERR_NO_SUPPORT ||
             virDomainIsActive(dom) == 0;
    virshTraceFail(ctl, err, unable, _("domain '%1$s': %2$s"),
                   virDomainGetName(dom), why);
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
    const char *domain = virDomainGetName(dom);
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
                       _("domain '%1$s': the reply of QEMU to '%2$s' is malformed"),
                       domain, name);
        return NULL;
    }

    klass = virJSONValueObjectGetString(error, "class");
    desc = virshTraceGetText(error, "desc");

    if (STREQ_NULLABLE(klass, "CommandNotFound")) {
        virshTraceFail(ctl, err, true,
                       _("the QEMU of domain '%1$s' cannot trace branches"),
                       domain);
    } else if (STREQ_NULLABLE(klass, "DeviceNotFound")) {
        virshTraceFail(ctl, err, true,
                       _("domain '%1$s' has no branch-trace device; it must be started with one"),
                       domain);
    } else {
        virshTraceFail(ctl, err, false, _("domain '%1$s': %2$s"), domain, desc);
    }
    return NULL;
}

/* Returns what the domain's device says. */
virJSONValue *
virshTraceQuery(vshControl *ctl,
                virDomainPtr dom,
                virshTraceError *err)
{
    virJSONValue *arguments = NULL;

    return virshTraceQmp(ctl, dom, err, "query-branch-trace", &arguments);
}

/* Returns what the agent on the domain's host returned to @command, which is
 * stolen. */
virJSONValue *
virshTraceCommand(vshControl *ctl,
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

/* Returns what the agent returned to a command with these members; see
 * virJSONValueObjectAdd(). */
virJSONValue *
virshTraceAsk(vshControl *ctl,
              virDomainPtr dom,
              virshTraceError *err,
              ...)
{
    g_autoptr(virJSONValue) command = NULL;
    va_list args;
    int rc;

    va_start(args, err);
    rc = virJSONValueObjectAddVArgs(&command, args);
    va_end(args);

    if (rc < 0) {
        vshSaveLibvirtError();
        return NULL;
    }

    return virshTraceCommand(ctl, dom, err, &command);
}

/* Is the domain being traced, whether its agent answers or not? */
bool
virshTraceIsCaptured(vshControl *ctl,
                     virDomainPtr dom)
{
    g_auto(virshTraceError) err = { 0 };
    g_autoptr(virJSONValue) info = virshTraceQuery(ctl, dom, &err);

    return info && STRNEQ(virshTraceState(info), "inactive");
}
