/*
 * virsh-completer-trace.c: virsh completer callbacks related to tracing
 *
 * SPDX-License-Identifier: LGPL-2.1-or-later
 */

#include <config.h>

#include "virsh-completer-trace.h"
#include "virsh-completer.h"
#include "virsh-trace-session.h"
#include "virsh-trace.h"
#include "virsh-util.h"

char **
virshTraceSessionCompleter(vshControl *ctl,
                           const vshCmd *cmd,
                           unsigned int flags)
{
    virshControl *priv = ctl->privData;
    g_autoptr(virshDomain) dom = NULL;

    virCheckFlags(0, NULL);

    if (!priv->conn || virConnectIsAlive(priv->conn) <= 0 ||
        !vshCommandOptBool(cmd, "domain"))
        return NULL;

    if (!(dom = virshCommandOptDomain(ctl, cmd, NULL)))
        return NULL;

    return virshTraceActiveSessions(ctl, dom);
}

#define VIRSH_TRACE_WORD_COMPLETER(_what) \
char ** \
virshTrace ## _what ## Completer(vshControl *ctl G_GNUC_UNUSED, \
                                 const vshCmd *cmd G_GNUC_UNUSED, \
                                 unsigned int flags) \
{ \
    virCheckFlags(0, NULL); \
\
    return g_strdupv((char **) virshTrace ## _what ## s); \
}

VIRSH_TRACE_WORD_COMPLETER(Overflow)
VIRSH_TRACE_WORD_COMPLETER(Mode)
VIRSH_TRACE_WORD_COMPLETER(Name)

char **
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
