# What a kind of step may say stands in its home in Python, from which native code has the text.
file(GLOB HOMES CONFIGURE_DEPENDS src/intact/engine/steps/*/*.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${HOMES})
set(STEP_RULES "")
foreach(home ${HOMES})
  file(READ ${home} TEXT)
  if(TEXT MATCHES "\n    rules(: ClassVar\\[str\\])? = \"\"\"([^\"]*)\"\"\"")
    set(RULES "${CMAKE_MATCH_2}")
    string(REGEX MATCH "\n    kind = \"([a-z_]+)\"" FOUND "${TEXT}")
    set(KIND "${CMAKE_MATCH_1}")
    if(NOT FOUND)  # of a record whose fields several kinds have
      string(REGEX MATCH "\nclass ([A-Za-z]+):" FOUND "${TEXT}")
      set(RULES_OF_${CMAKE_MATCH_1} "${RULES}")
    elseif(NOT INTACT_KINDS OR KIND IN_LIST CHOSEN)
      string(REGEX MATCH "\nclass [A-Za-z]+\\(([A-Za-z]+)[,)]" FOUND "${TEXT}")
      string(APPEND STEP_RULES "{\"${KIND}\", R\"(${RULES_OF_${CMAKE_MATCH_1}}${RULES})\"},\n")
    endif()
  endif()
endforeach()
file(CONFIGURE OUTPUT generated/engine/step_rules.inc CONTENT "${STEP_RULES}" @ONLY)

# The C library: libintact, shared and static, of the engine below the plan and of the kernels that the module has.
file(STRINGS src/intact/_version.py VERSION_LINE REGEX "__version__")
string(REGEX REPLACE ".*\"(.+)\".*" "\\1" INTACT_VERSION "${VERSION_LINE}")

file(GLOB ENGINE CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" csrc/engine/*.cc csrc/engine/kinds/*.cc)
set(INTERFACE csrc/engine/interface.cc csrc/engine/session.cc)  # the module for Python has none of it
list(REMOVE_ITEM ENGINE ${INTERFACE})
add_library(intact_engine OBJECT ${ENGINE})
target_include_directories(intact_engine PUBLIC csrc include)
target_include_directories(intact_engine PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/generated")
target_compile_definitions(intact_engine PRIVATE INTACT_BUILD INTACT_VERSION="${INTACT_VERSION}")
set_target_properties(intact_engine PROPERTIES
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
if(MSVC)
  target_compile_options(intact_engine PRIVATE /fp:precise /W3)
else()
  target_compile_options(intact_engine PRIVATE -Os -ffp-contract=off -fno-math-errno -Wall -Wextra)
  set_source_files_properties(${INTERFACE} PROPERTIES COMPILE_OPTIONS -Os)
endif()
target_compile_options(intact_engine PRIVATE ${SANITIZE} ${COVERAGE})
if(PRECOMPILE)
  target_precompile_headers(intact_engine PRIVATE ${STANDARD_HEADERS} csrc/engine/binding.h csrc/engine/kinds.h)
endif()

# Calibration is the module's alone.
add_library(intact_static STATIC ${INTERFACE} $<TARGET_OBJECTS:intact_engine> $<TARGET_OBJECTS:intact_kernels>)
add_library(intact_shared SHARED ${INTERFACE})
target_link_libraries(intact_shared PRIVATE intact_static)
foreach(library intact_static intact_shared)
  target_include_directories(${library} PRIVATE csrc include)
  target_compile_definitions(${library} PRIVATE INTACT_BUILD INTACT_VERSION="${INTACT_VERSION}")
  target_compile_options(${library} PRIVATE ${SANITIZE})
  target_link_libraries(${library} PRIVATE Threads::Threads)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME intact)
endforeach()
set_target_properties(intact_static PROPERTIES POSITION_INDEPENDENT_CODE ON)
set_target_properties(intact_static intact_shared PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
set_target_properties(intact_shared PROPERTIES SOVERSION 0)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(intact_shared PRIVATE ${SANITIZE} -Wl,--exclude-libs,ALL -Wl,--gc-sections)
endif()
if(MSVC)
  set_target_properties(intact_static PROPERTIES OUTPUT_NAME intact_static)
endif()

if(INTACT_SANITIZE AND NOT INTACT_CHECK)
  foreach(program hostile fuzz_plans)
    add_executable(native_${program} EXCLUDE_FROM_ALL
      tests/capi/fuzz_plans.cc tests/capi/plan_file.cc tests/capi/run_hostile.cc)
    target_compile_definitions(native_${program} PRIVATE INTACT_STATIC)
    target_include_directories(native_${program} PRIVATE csrc include)
    target_compile_options(native_${program} PRIVATE ${SANITIZE} -g1)
    target_link_options(native_${program} PRIVATE ${SANITIZE})
    target_link_libraries(native_${program} PRIVATE intact_static)
  endforeach()
  target_sources(native_hostile PRIVATE tests/capi/hostile.cc)
  target_link_options(native_fuzz_plans PRIVATE -fsanitize=fuzzer)  # which has a main
elseif(INTACT_PYTHON)
  # In a wheel there are no links, and programs link with the library's own name.
  install(TARGETS intact_shared LIBRARY DESTINATION intact/lib NAMELINK_SKIP RUNTIME DESTINATION intact/lib)
  install(FILES include/intact.h include/intact.hpp DESTINATION intact/include)
else()
  include(GNUInstallDirs)
  install(TARGETS intact_shared intact_static
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES include/intact.h include/intact.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  file(CONFIGURE OUTPUT intact.pc CONTENT "prefix=@CMAKE_INSTALL_PREFIX@
libdir=\${prefix}/@CMAKE_INSTALL_LIBDIR@
includedir=\${prefix}/@CMAKE_INSTALL_INCLUDEDIR@

Name: intact
Description: Runs quantized plans in int8, exactly as their integer reference
Version: @INTACT_VERSION@
Libs: -L\${libdir} -lintact
Libs.private: -lstdc++ -lpthread -lm
Cflags: -I\${includedir}
" @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/intact.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
