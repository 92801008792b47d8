/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libvirt, loaded when it is needed: see load.h
 */

#include <dlfcn.h>
#include <libvirt/libvirt-qemu.h>
#include <libvirt/virterror.h>

#include "libvirt/load.h"
#include "util/agent-error.h"

/* It needs libvirt.so.0, whose functions dlsym() finds through it. */
#define LIBRARY "libvirt-qemu.so.0"

static void *library;

static void *find(const char *name)
{
    void *symbol = dlsym(library, name);

    if (!symbol) {
        g_error("%s lacks %s", LIBRARY, name);
    }
    return symbol;
}

/* These are the declarations of libvirt's own headers. */
virConnectAuthPtr virConnectAuthPtrDefault;

#define CALL(type, name, parameters, arguments)                         \
    type name parameters                                                \
    {                                                                   \
        return ((__typeof__(name) *)find(#name)) arguments;             \
    }

CALL(virConnectPtr, virConnectOpenAuth,
     (const char *uri, virConnectAuthPtr auth, unsigned int flags),
     (uri, auth, flags))
CALL(int, virConnectClose, (virConnectPtr conn), (conn))
CALL(int, virConnectIsAlive, (virConnectPtr conn), (conn))
CALL(char *, virConnectGetCapabilities, (virConnectPtr conn), (conn))
CALL(char *, virConnectGetDomainCapabilities,
     (virConnectPtr conn, const char *emulator, const char *arch,
      const char *machine, const char *virttype, unsigned int flags),
     (conn, emulator, arch, machine, virttype, flags))
CALL(const char *, virConnectGetType, (virConnectPtr conn), (conn))
CALL(char *, virConnectDomainXMLToNative,
     (virConnectPtr conn, const char *format, const char *xml,
      unsigned int flags), (conn, format, xml, flags))
CALL(char *, virConnectGetURI, (virConnectPtr conn), (conn))
CALL(int, virConnectListAllDomains,
     (virConnectPtr conn, virDomainPtr **domains, unsigned int flags),
     (conn, domains, flags))

CALL(virDomainPtr, virDomainLookupByName,
     (virConnectPtr conn, const char *name), (conn, name))
CALL(virDomainPtr, virDomainLookupByUUIDString,
     (virConnectPtr conn, const char *uuid), (conn, uuid))
CALL(unsigned int, virDomainGetID, (virDomainPtr domain), (domain))
CALL(virDomainPtr, virDomainLookupByID, (virConnectPtr conn, int id),
     (conn, id))
CALL(virDomainPtr, virDomainDefineXML, (virConnectPtr conn, const char *xml),
     (conn, xml))
CALL(int, virDomainCreateWithFlags, (virDomainPtr domain, unsigned int flags),
     (domain, flags))
CALL(int, virDomainSuspend, (virDomainPtr domain), (domain))
CALL(int, virDomainGetState,
     (virDomainPtr domain, int *state, int *reason, unsigned int flags),
     (domain, state, reason, flags))
CALL(int, virDomainGetJobInfo, (virDomainPtr domain, virDomainJobInfoPtr info),
     (domain, info))
CALL(int, virDomainGetUUIDString, (virDomainPtr domain, char *uuid),
     (domain, uuid))
CALL(int, virDomainResume, (virDomainPtr domain), (domain))
CALL(const char *, virDomainGetName, (virDomainPtr domain), (domain))
CALL(int, virDomainFree, (virDomainPtr domain), (domain))
CALL(virConnectPtr, virDomainGetConnect, (virDomainPtr domain), (domain))
CALL(int, virDomainGetSecurityLabelList,
     (virDomainPtr domain, virSecurityLabelPtr *labels), (domain, labels))
CALL(char *, virDomainGetXMLDesc, (virDomainPtr domain, unsigned int flags),
     (domain, flags))
CALL(int, virDomainHasManagedSaveImage,
     (virDomainPtr domain, unsigned int flags), (domain, flags))
CALL(int, virDomainIsActive, (virDomainPtr domain), (domain))
CALL(int, virDomainIsPersistent, (virDomainPtr domain), (domain))
CALL(char *, virDomainManagedSaveGetXMLDesc,
     (virDomainPtr domain, unsigned int flags), (domain, flags))
CALL(int, virDomainQemuMonitorCommand,
     (virDomainPtr domain, const char *command, char **result,
      unsigned int flags),
     (domain, command, result, flags))
CALL(int, virDomainQemuMonitorCommandWithFiles,
     (virDomainPtr domain, const char *command, unsigned int n, int *files,
      unsigned int *n_out, int **out, char **result, unsigned int flags),
     (domain, command, n, files, n_out, out, result, flags))

CALL(int, virEventRegisterDefaultImpl, (void), ())
CALL(int, virEventRunDefaultImpl, (void), ())
CALL(int, virEventAddHandle,
     (int fd, int events, virEventHandleCallback call, void *opaque,
      virFreeCallback drop), (fd, events, call, opaque, drop))
CALL(int, virEventRemoveHandle, (int watch), (watch))
CALL(int, virEventAddTimeout,
     (int ms, virEventTimeoutCallback call, void *opaque,
      virFreeCallback drop), (ms, call, opaque, drop))
CALL(int, virEventRemoveTimeout, (int timer), (timer))
CALL(int, virConnectDomainEventRegisterAny,
     (virConnectPtr conn, virDomainPtr domain, int event,
      virConnectDomainEventGenericCallback call, void *opaque,
      virFreeCallback drop), (conn, domain, event, call, opaque, drop))
CALL(int, virConnectDomainEventDeregisterAny,
     (virConnectPtr conn, int callback), (conn, callback))

/* It returns nothing. */
void virEventUpdateTimeout(int timer, int ms)
{
    ((__typeof__(virEventUpdateTimeout) *)find("virEventUpdateTimeout"))(timer,
                                                                         ms);
}

CALL(const char *, virGetLastErrorMessage, (void), ())
CALL(void, virSetErrorFunc, (void *opaque, virErrorFunc handler),
     (opaque, handler))

bool libvirt_load(GError **error)
{
    if (library) {
        return true;
    }
    library = dlopen(LIBRARY, RTLD_LAZY);
    if (!library) {
        g_set_error(error, AGENT_ERROR, AGENT_ERROR_SYSTEM,
                    "cannot connect to libvirt: %s", dlerror());
        return false;
    }
    virConnectAuthPtrDefault =
        *(virConnectAuthPtr *)find("virConnectAuthPtrDefault");
    return true;
}
