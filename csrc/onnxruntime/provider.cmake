# libintact_onnxruntime, the plug-in execution provider for ONNX Runtime, none of whose files it needs.
add_library(intact_onnxruntime SHARED
  csrc/onnxruntime/context_node.cc csrc/onnxruntime/plan_node.cc csrc/onnxruntime/provider.cc)
target_include_directories(intact_onnxruntime PRIVATE csrc include)
target_link_libraries(intact_onnxruntime PRIVATE intact_shared)
set_target_properties(intact_onnxruntime PROPERTIES
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
if(MSVC)
  target_compile_options(intact_onnxruntime PRIVATE /W3)
else()
  target_compile_options(intact_onnxruntime PRIVATE -Os -Wall -Wextra)
endif()
# It finds libintact in its own folder, wherever both are copied.
if(APPLE)
  set_target_properties(intact_onnxruntime PROPERTIES INSTALL_RPATH "@loader_path")
elseif(UNIX)
  set_target_properties(intact_onnxruntime PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
if(INTACT_PYTHON)
  install(TARGETS intact_onnxruntime LIBRARY DESTINATION intact/lib RUNTIME DESTINATION intact/lib)
else()
  install(TARGETS intact_onnxruntime
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
